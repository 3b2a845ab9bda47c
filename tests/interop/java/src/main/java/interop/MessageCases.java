package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.same;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageEOFException;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;

/** Every message type, header and property type, sent and received. */
final class MessageCases {
   private MessageCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("one-message", MessageCases::oneMessage);
      cases.put("text", MessageCases::text);
      cases.put("bytes", MessageCases::bytes);
      cases.put("map", MessageCases::map);
      cases.put("stream", MessageCases::stream);
      cases.put("object", MessageCases::object);
      cases.put("bodiless", MessageCases::bodiless);
      cases.put("properties", MessageCases::properties);
      cases.put("headers", MessageCases::headers);
      cases.put("sizes", MessageCases::sizes);
      cases.put("forwarded", MessageCases::forwarded);
   }

   private static Message roundTrip(Session session, Queue queue, Message message) throws Exception {
      try (MessageProducer producer = session.createProducer(queue)) {
         producer.send(message);
      }
      try (var consumer = session.createConsumer(queue)) {
         return next(consumer);
      }
   }

   private static void oneMessage(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      same("hello", ((TextMessage) roundTrip(session, queue, session.createTextMessage("hello"))).getText());
   }

   private static void text(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      for (String text : new String[] {"", "a", "grüße Ω 中文 \uD83D\uDE00 \0 end", "x".repeat(40_000), null}) {
         Message received = roundTrip(session, queue, session.createTextMessage(text));
         check(received instanceof TextMessage, "not a text message: " + received);
         same(text, ((TextMessage) received).getText());
      }
   }

   private static void bytes(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      BytesMessage sent = session.createBytesMessage();
      sent.writeBoolean(true);
      sent.writeByte((byte) -7);
      sent.writeShort((short) -300);
      sent.writeChar('Ω');
      sent.writeInt(Integer.MIN_VALUE);
      sent.writeLong(Long.MAX_VALUE);
      sent.writeFloat(1.5f);
      sent.writeDouble(-2.25);
      sent.writeUTF("grüße\0");
      byte[] block = new byte[5000];
      Arrays.fill(block, (byte) 9);
      sent.writeBytes(block, 10, 4000);
      BytesMessage received = (BytesMessage) roundTrip(session, queue, sent);
      same(true, received.readBoolean());
      same((byte) -7, received.readByte());
      same((short) -300, received.readShort());
      same('Ω', received.readChar());
      same(Integer.MIN_VALUE, received.readInt());
      same(Long.MAX_VALUE, received.readLong());
      same(1.5f, received.readFloat());
      same(-2.25, received.readDouble());
      same("grüße\0", received.readUTF());
      byte[] rest = new byte[6000];
      same(4000, received.readBytes(rest));
      same((byte) 9, rest[3999]);
      same(-1, received.readBytes(rest));
      Broker.fails(MessageEOFException.class, received::readByte);
   }

   private static void map(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MapMessage sent = session.createMapMessage();
      sent.setBoolean("boolean", true);
      sent.setByte("byte", (byte) 1);
      sent.setShort("short", (short) 2);
      sent.setChar("char", 'ü');
      sent.setInt("int", 3);
      sent.setLong("long", 4L);
      sent.setFloat("float", 5.5f);
      sent.setDouble("double", 6.5);
      sent.setString("string", "seven");
      sent.setString("null", null);
      sent.setBytes("bytes", new byte[] {8, 9});
      MapMessage received = (MapMessage) roundTrip(session, queue, sent);
      same(true, received.getObject("boolean"));
      same((byte) 1, received.getObject("byte"));
      same((short) 2, received.getObject("short"));
      same('ü', received.getObject("char"));
      same(3, received.getObject("int"));
      same(4L, received.getObject("long"));
      same(5.5f, received.getObject("float"));
      same(6.5, received.getObject("double"));
      same("seven", received.getObject("string"));
      check(received.itemExists("null") && received.getObject("null") == null, "null item");
      same(new byte[] {8, 9}, received.getBytes("bytes"));
      same(11, Collections.list(received.getMapNames()).size());
   }

   private static void stream(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      StreamMessage sent = session.createStreamMessage();
      Object[] items = {true, (byte) 1, (short) 2, 'c', 3, 4L, 5.5f, 6.5, "seven", null};
      for (Object item : items) {
         sent.writeObject(item);
      }
      sent.writeBytes(new byte[] {1, 2, 3});
      StreamMessage received = (StreamMessage) roundTrip(session, queue, sent);
      for (Object item : items) {
         same(item, received.readObject());
      }
      same(new byte[] {1, 2, 3}, received.readObject());
      Broker.fails(MessageEOFException.class, received::readObject);
   }

   private static void object(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Serializable value = new ArrayList<>(List.of("one", 2, 3.0));
      same(value, ((ObjectMessage) roundTrip(session, queue, session.createObjectMessage(value))).getObject());
      same(null, ((ObjectMessage) roundTrip(session, queue, session.createObjectMessage())).getObject());
   }

   private static void bodiless(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Message sent = session.createMessage();
      sent.setIntProperty("n", 5);
      same(5, roundTrip(session, queue, sent).getIntProperty("n"));
   }

   private static void properties(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Message sent = session.createTextMessage("body");
      sent.setBooleanProperty("boolean", true);
      sent.setByteProperty("byte", Byte.MIN_VALUE);
      sent.setShortProperty("short", Short.MAX_VALUE);
      sent.setIntProperty("int", -5);
      sent.setLongProperty("long", 1L << 40);
      sent.setFloatProperty("float", 0.5f);
      sent.setDoubleProperty("double", 1e300);
      sent.setStringProperty("string", "ünï");
      sent.setStringProperty("empty", "");
      Message received = roundTrip(session, queue, sent);
      same(true, received.getObjectProperty("boolean"));
      same(Byte.MIN_VALUE, received.getObjectProperty("byte"));
      same(Short.MAX_VALUE, received.getObjectProperty("short"));
      same(-5, received.getObjectProperty("int"));
      same(1L << 40, received.getObjectProperty("long"));
      same(0.5f, received.getObjectProperty("float"));
      same(1e300, received.getObjectProperty("double"));
      same("ünï", received.getObjectProperty("string"));
      same("", received.getStringProperty("empty"));
      same("-5", received.getStringProperty("int"));
      same(null, received.getObjectProperty("absent"));
      var names = new TreeSet<String>();
      Collections.list(received.getPropertyNames()).forEach(name -> names.add((String) name));
      names.removeIf(name -> name.startsWith("JMSX"));
      same("[boolean, byte, double, empty, float, int, long, short, string]", names.toString());
   }

   private static void headers(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Queue replies = session.createQueue(broker.fresh("replies"));
      MessageProducer producer = session.createProducer(queue);
      TextMessage sent = session.createTextMessage("x");
      sent.setJMSCorrelationID("correlation");
      sent.setJMSType("kind");
      sent.setJMSReplyTo(replies);
      sent.setStringProperty("JMSXGroupID", "group");
      long before = System.currentTimeMillis();
      producer.send(sent, DeliveryMode.NON_PERSISTENT, 7, 600_000);
      var consumer = session.createConsumer(queue);
      Message received = next(consumer);
      same("correlation", received.getJMSCorrelationID());
      same("kind", received.getJMSType());
      same(replies, received.getJMSReplyTo());
      same(queue, received.getJMSDestination());
      same("group", received.getStringProperty("JMSXGroupID"));
      same(DeliveryMode.NON_PERSISTENT, received.getJMSDeliveryMode());
      same(7, received.getJMSPriority());
      same(sent.getJMSMessageID(), received.getJMSMessageID());
      check(received.getJMSMessageID().startsWith("ID:"), "message id " + received.getJMSMessageID());
      same(false, received.getJMSRedelivered());
      same(1, received.getIntProperty("JMSXDeliveryCount"));
      long timestamp = received.getJMSTimestamp();
      check(timestamp >= before && timestamp <= System.currentTimeMillis(), "timestamp " + timestamp);
      same(sent.getJMSExpiration(), received.getJMSExpiration());
      producer.setDisableMessageTimestamp(true);
      producer.send(session.createTextMessage("y"));
      received = next(consumer);
      same(0L, received.getJMSTimestamp());
      same(DeliveryMode.PERSISTENT, received.getJMSDeliveryMode());
      same(4, received.getJMSPriority());
      same(0L, received.getJMSExpiration());
   }

   private static void sizes(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      for (int size : new int[] {0, 1, 1023, 1024, 8191, 8192, 16_384, 65_535, 65_536, 90_000}) {
         byte[] body = new byte[size];
         for (int i = 0; i < size; i++) {
            body[i] = (byte) (i * 31 + size);
         }
         BytesMessage sent = session.createBytesMessage();
         sent.writeBytes(body);
         BytesMessage received = (BytesMessage) roundTrip(session, queue, sent);
         same((long) size, received.getBodyLength());
         byte[] got = new byte[size];
         received.readBytes(got);
         same(body, got);
      }
   }

   /** A received message is sent on: its bytes travel a second time, with headers and properties of the second send. */
   private static void forwarded(Broker broker) throws Exception {
      Session session = broker.session();
      Queue first = session.createQueue(broker.fresh("first"));
      Queue second = session.createQueue(broker.fresh("second"));
      TextMessage sent = session.createTextMessage("again");
      sent.setIntProperty("n", 1);
      Message received = roundTrip(session, first, sent);
      received.clearProperties();
      received.setStringProperty("m", "two");
      TextMessage last = (TextMessage) roundTrip(session, second, received);
      same("again", last.getText());
      same("two", last.getStringProperty("m"));
      check(!last.propertyExists("n"), "property of the first send");
      same(second, last.getJMSDestination());
   }
}
