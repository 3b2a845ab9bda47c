package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.MapMessage;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;

/** The Java end of an exchange with embedclient: the queues python-to-java and java-to-python. */
final class PythonCases {
   private static final byte[] ALL_BYTES = new byte[256];

   static {
      for (int i = 0; i < ALL_BYTES.length; i++) {
         ALL_BYTES[i] = (byte) i;
      }
   }

   private PythonCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("takes-from-python", PythonCases::takes);
      cases.put("leaves-for-python", PythonCases::leaves);
   }

   private static void takes(Broker broker) throws Exception {
      Session session = broker.session();
      MessageConsumer consumer = session.createConsumer(session.createQueue("python-to-java"));
      TextMessage text = (TextMessage) next(consumer);
      same("grüße \uD83D\uDE00", text.getText());
      check(text.getBooleanProperty("flag"), "flag");
      same(7, text.getIntProperty("n"));
      same("ü", text.getStringProperty("s"));
      same("c", text.getJMSCorrelationID());
      same("t", text.getJMSType());
      BytesMessage bytes = (BytesMessage) next(consumer);
      byte[] got = new byte[256];
      same(256, bytes.readBytes(got));
      same(ALL_BYTES, got);
      MapMessage map = (MapMessage) next(consumer);
      same(1L, map.getLong("n"));
      same("ü", map.getString("s"));
      same(1.5, map.getDouble("f"));
      same(null, map.getObject("none"));
      same(new byte[] {1, 2}, map.getBytes("b"));
      same(true, map.getBoolean("flag"));
      StreamMessage stream = (StreamMessage) next(consumer);
      same(1L, stream.readLong());
      same("ü", stream.readString());
      same(1.5, stream.readDouble());
      same(null, stream.readObject());
      same(new byte[] {1, 2}, stream.readObject());
      same(true, stream.readBoolean());
      nothing(consumer);
   }

   private static void leaves(Broker broker) throws Exception {
      Session session = broker.session();
      MessageProducer producer = session.createProducer(session.createQueue("java-to-python"));
      TextMessage text = session.createTextMessage("grüße \uD83D\uDE00");
      text.setIntProperty("n", 7);
      text.setJMSCorrelationID("c");
      producer.send(text);
      BytesMessage bytes = session.createBytesMessage();
      bytes.writeBytes(ALL_BYTES);
      producer.send(bytes);
      MapMessage map = session.createMapMessage();
      map.setInt("n", 1);
      map.setLong("l", 1L << 40);
      map.setString("s", "ü");
      map.setFloat("f", 1.5f);
      map.setString("none", null);
      map.setBytes("b", new byte[] {1, 2});
      map.setBoolean("flag", true);
      map.setChar("c", 'Ω');
      producer.send(map);
      StreamMessage stream = session.createStreamMessage();
      stream.writeInt(1);
      stream.writeLong(1L << 40);
      stream.writeString("ü");
      stream.writeDouble(1.5);
      stream.writeObject(null);
      stream.writeBytes(new byte[] {1, 2});
      stream.writeBoolean(true);
      producer.send(stream);
      producer.send(session.createObjectMessage(new ArrayList<>(List.of("one", 2))));
   }
}
