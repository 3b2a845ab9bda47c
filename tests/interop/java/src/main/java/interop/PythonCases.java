package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.MapMessage;
import javax.jms.Message;
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
      cases.put("takes-large-from-python", PythonCases::takesLarge);
      cases.put("leaves-large-for-python", PythonCases::leavesLarge);
   }

   /** Numbers of eight bytes, from zero on: a large body that both ends can make and compare. */
   private static final class Numbers extends InputStream {
      private final long size;
      private long at;

      Numbers(long size) {
         this.size = size;
      }

      @Override
      public int read() {
         return at == size ? -1 : (int) (at / 8 >>> 8 * (7 - at++ % 8)) & 0xff;
      }

      @Override
      public int read(byte[] target, int offset, int length) {
         if (at == size) {
            return -1;
         }
         int count = (int) Math.min(length, size - at);
         for (int i = 0; i < count; i++, at++) {
            target[offset + i] = (byte) (at / 8 >>> 8 * (7 - at % 8));
         }
         return count;
      }
   }

   /** Compares what is written with the numbers. */
   private static final class Comparing extends OutputStream {
      private final Numbers expected;
      long count;

      Comparing(long size) {
         expected = new Numbers(size);
      }

      @Override
      public void write(int value) throws IOException {
         if (expected.read() != (value & 0xff)) {
            throw new IOException("byte " + count + " differs");
         }
         count++;
      }

      @Override
      public void write(byte[] source, int offset, int length) throws IOException {
         byte[] wanted = new byte[length];
         expected.read(wanted, 0, length);
         if (!Arrays.equals(wanted, 0, length, source, offset, offset + length)) {
            throw new IOException("a byte after " + count + " differs");
         }
         count += length;
      }
   }

   private static void takesLarge(Broker broker) throws Exception {
      Session session = broker.session();
      MessageConsumer consumer = session.createConsumer(session.createQueue("large-python-to-java"));
      for (int i = 0; i < 3; i++) {
         Message message = next(consumer);
         long size = message.getLongProperty("size");
         Comparing comparing = new Comparing(size);
         message.setObjectProperty("JMS_AMQ_SaveStream", comparing);
         same(size, comparing.count);
      }
      TextMessage text = (TextMessage) next(consumer);
      same("ü\uD83D\uDE00".repeat(200_000), text.getText());
      MapMessage map = (MapMessage) next(consumer);
      same(300_000, map.getBytes("b").length);
      nothing(consumer);
   }

   private static void leavesLarge(Broker broker) throws Exception {
      Session plain = broker.session();
      Session compressed = broker.session("compressLargeMessage=true");
      for (Session session : List.of(plain, compressed)) {
         MessageProducer producer = session.createProducer(session.createQueue("large-java-to-python"));
         for (long size : new long[] {1L << 20, session == plain ? 100L << 20 : 8L << 20}) {
            BytesMessage bytes = session.createBytesMessage();
            bytes.setObjectProperty("JMS_AMQ_InputStream", new Numbers(size));
            bytes.setLongProperty("size", size);
            producer.send(bytes);
         }
         producer.send(session.createTextMessage("ü\uD83D\uDE00".repeat(200_000)));
         producer.send(session.createObjectMessage("o".repeat(200_000)));
      }
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
