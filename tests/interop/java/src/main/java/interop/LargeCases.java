package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;
import static interop.SessionCases.send;

import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.zip.CRC32;
import javax.jms.BytesMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;

/** Messages whose bodies go in chunks: whole, streamed, compressed, in transactions, shared, and not read at all. */
final class LargeCases {
   private static final int MIB = 1024 * 1024;

   private LargeCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("large-bytes", LargeCases::bytes);
      cases.put("large-text", LargeCases::text);
      cases.put("large-stream", broker -> stream(broker, 8L * MIB));
      cases.put("large-stream-of-100-mib", broker -> stream(broker, 100L * MIB));
      cases.put("large-compressed", LargeCases::compressed);
      cases.put("large-small-limit", LargeCases::smallLimit);
      cases.put("large-transacted", LargeCases::transacted);
      cases.put("large-shared", LargeCases::shared);
      cases.put("large-not-read", LargeCases::notRead);
      cases.put("large-slow-consumer", LargeCases::slowConsumer);
      cases.put("large-browsed", LargeCases::browsed);
      cases.put("large-recovered", LargeCases::recovered);
      cases.put("large-survives-kill", LargeCases::survivesKill);
   }

   /** Bytes that do not repeat. */
   private static byte[] block(int size, long seed) {
      byte[] block = new byte[size];
      new Random(seed).nextBytes(block);
      return block;
   }

   private static BytesMessage bytesOf(Session session, byte[] block) throws Exception {
      BytesMessage message = session.createBytesMessage();
      message.writeBytes(block);
      return message;
   }

   private static byte[] contentOf(Message message) throws Exception {
      BytesMessage bytes = (BytesMessage) message;
      byte[] content = new byte[(int) bytes.getBodyLength()];
      same(content.length, bytes.readBytes(content));
      return content;
   }

   private static void sendBytes(Session session, Queue queue, byte[] block) throws Exception {
      try (MessageProducer producer = session.createProducer(queue)) {
         producer.send(bytesOf(session, block));
      }
   }

   private static void bytes(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      for (int size : new int[] {102_396, 102_400, 204_800, MIB, 5 * MIB + 3}) {
         byte[] sent = block(size, size);
         sendBytes(session, queue, sent);
         same(sent, contentOf(next(consumer)));
      }
      send(session, queue, "small");
      same("small", nextText(consumer));
   }

   private static void text(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      String text = "grüße Ω ".repeat(100_000);
      TextMessage message = session.createTextMessage(text);
      message.setStringProperty("colour", "red");
      try (MessageProducer producer = session.createProducer(queue)) {
         producer.send(message);
      }
      TextMessage received = (TextMessage) next(session.createConsumer(queue, "colour = 'red'"));
      same(text, received.getText());
      same("red", received.getStringProperty("colour"));
   }

   /** A body that is made as it is sent, with the checksum of what was. */
   private static final class Source extends InputStream {
      final CRC32 sum = new CRC32();
      private final Random random = new Random(7);
      private long left;

      Source(long size) {
         left = size;
      }

      @Override
      public int read() {
         byte[] one = new byte[1];
         return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
      }

      @Override
      public int read(byte[] into, int offset, int length) {
         if (left == 0) {
            return -1;
         }
         byte[] bytes = new byte[(int) Math.min(length, left)];
         random.nextBytes(bytes);
         System.arraycopy(bytes, 0, into, offset, bytes.length);
         sum.update(bytes);
         left -= bytes.length;
         return bytes.length;
      }
   }

   private static final class Sink extends OutputStream {
      final CRC32 sum = new CRC32();
      long size;

      @Override
      public void write(int one) {
         write(new byte[] {(byte) one}, 0, 1);
      }

      @Override
      public void write(byte[] from, int offset, int length) {
         sum.update(from, offset, length);
         size += length;
      }
   }

   private static void stream(Broker broker, long size) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Source source = new Source(size);
      try (MessageProducer producer = session.createProducer(queue)) {
         BytesMessage message = session.createBytesMessage();
         message.setObjectProperty("JMS_AMQ_InputStream", source);
         producer.send(message);
      }
      Sink sink = new Sink();
      BytesMessage received = (BytesMessage) next(session.createConsumer(queue));
      same(size, received.getBodyLength());
      received.setObjectProperty("JMS_AMQ_SaveStream", sink);
      same(size, sink.size);
      same(source.sum.getValue(), sink.sum.getValue());
   }

   private static void compressed(Broker broker) throws Exception {
      Session session = broker.session("compressLargeMessage=true");
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      byte[] sent = block(MIB, 5);
      sendBytes(session, queue, sent);
      same(sent, contentOf(next(consumer)));
      byte[] zeros = new byte[MIB];
      sendBytes(session, queue, zeros);
      same(zeros, contentOf(next(consumer)));
   }

   private static void smallLimit(Broker broker) throws Exception {
      Session session = broker.session("minLargeMessageSize=10240");
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      for (int size : new int[] {10_000, 10_240, 20_480, 65_000}) {
         byte[] sent = block(size, size);
         sendBytes(session, queue, sent);
         same(sent, contentOf(next(consumer)));
      }
   }

   private static void transacted(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      byte[] lost = block(300_000, 1);
      byte[] kept = block(400_000, 2);
      sendBytes(session, queue, lost);
      session.rollback();
      sendBytes(session, queue, kept);
      send(session, queue, "behind");
      session.commit();
      same(kept, contentOf(next(consumer)));
      session.rollback();
      Message again = next(consumer);
      check(again.getJMSRedelivered(), "not marked as redelivered");
      same(kept, contentOf(again));
      same("behind", nextText(consumer));
      session.commit();
      nothing(consumer);
   }

   private static void shared(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      List<MessageConsumer> consumers = new ArrayList<>();
      for (int i = 0; i < 3; i++) {
         consumers.add(broker.session().createConsumer(topic));
      }
      byte[] sent = block(2 * MIB, 3);
      try (MessageProducer producer = session.createProducer(topic)) {
         producer.send(bytesOf(session, sent));
      }
      for (MessageConsumer consumer : consumers) {
         same(sent, contentOf(next(consumer)));
      }
   }

   private static void notRead(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      sendBytes(session, queue, block(3 * MIB, 4));
      sendBytes(session, queue, block(3 * MIB, 5));
      send(session, queue, "last");
      MessageConsumer consumer = session.createConsumer(queue);
      next(consumer);
      next(consumer);
      same("last", nextText(consumer));
   }

   private static void slowConsumer(Broker broker) throws Exception {
      for (String window : new String[] {"0", "1", "5000", "-1"}) {
         Session session = broker.session("consumerWindowSize=" + window);
         Queue queue = session.createQueue(broker.fresh("q"));
         byte[] first = block(MIB, 6);
         byte[] second = block(400_000, 7);
         sendBytes(session, queue, first);
         sendBytes(session, queue, second);
         MessageConsumer consumer = session.createConsumer(queue);
         same(first, contentOf(next(consumer)));
         same(second, contentOf(next(consumer)));
         nothing(consumer);
         consumer.close();
      }
   }

   private static void browsed(Broker broker) throws Exception {
      // More than both messages: the client grants credit on another thread than it requests an end of the browser. If
      // the window is used up, the request may come first, and the browser ends early with any broker.
      Session session = broker.session("consumerWindowSize=" + 4 * MIB);
      Queue queue = session.createQueue(broker.fresh("q"));
      byte[] sent = block(MIB, 8);
      sendBytes(session, queue, sent);
      sendBytes(session, queue, sent);
      int seen = 0;
      QueueBrowser browser = session.createBrowser(queue);
      for (var messages = browser.getEnumeration(); messages.hasMoreElements(); seen++) {
         same(sent, contentOf((Message) messages.nextElement()));
      }
      browser.close();
      same(2, seen);
      same(sent, contentOf(next(session.createConsumer(queue))));
   }

   private static void recovered(Broker broker) throws Exception {
      Session session = broker.connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      byte[] sent = block(MIB, 9);
      sendBytes(session, queue, sent);
      MessageConsumer consumer = session.createConsumer(queue);
      next(consumer);
      session.recover();
      Message again = next(consumer);
      same(sent, contentOf(again));
      again.acknowledge();
      consumer.close();
      nothing(session.createConsumer(queue));
   }

   private static void survivesKill(Broker broker) throws Exception {
      byte[] sent = block(3 * MIB, 10);
      String name = broker.fresh("q");
      Session before = broker.session();
      sendBytes(before, before.createQueue(name), sent);
      broker.ask("kill");
      Session session = broker.session();
      MessageConsumer consumer = session.createConsumer(session.createQueue(name));
      byte[] content = contentOf(next(consumer));
      check(Arrays.equals(sent, content), "another body");
      nothing(consumer);
   }
}
