package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/** The broker under test as one case sees it: connections that close with the case, fresh names, checks, requests. */
final class Broker implements AutoCloseable {
   static final long WAIT = 10_000; // for what must come
   static final long NOTHING = 150; // for what must not come

   final String url;
   private final String name;
   private final BufferedReader in;
   private final PrintStream out;
   private final List<AutoCloseable> open = new ArrayList<>();

   Broker(String name, String url, BufferedReader in, PrintStream out) {
      this.name = name;
      this.url = url;
      this.in = in;
      this.out = out;
   }

   /** A name no other case has used, on this broker or on one that outlived an earlier run. */
   String fresh(String what) {
      return name + "." + what + "." + UUID.randomUUID().toString().substring(0, 8);
   }

   ActiveMQConnectionFactory factory(String... parameters) {
      String separator = url.contains("?") ? "&" : "?";
      String query = parameters.length == 0 ? "" : separator + String.join("&", parameters);
      ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url + query);
      open.add(factory);
      return factory;
   }

   /** A started connection. */
   Connection connect(String... parameters) throws JMSException {
      Connection connection = factory(parameters).createConnection();
      open.add(connection);
      connection.start();
      return connection;
   }

   Connection connectAs(String clientId, String... parameters) throws JMSException {
      Connection connection = factory(parameters).createConnection();
      open.add(connection);
      connection.setClientID(clientId);
      connection.start();
      return connection;
   }

   Session session(String... parameters) throws JMSException {
      return connect(parameters).createSession(false, Session.AUTO_ACKNOWLEDGE);
   }

   Session transacted(String... parameters) throws JMSException {
      return connect(parameters).createSession(true, Session.SESSION_TRANSACTED);
   }

   /** Asks whoever runs this program for something and waits until it is done. */
   void ask(String word) throws IOException {
      out.println("ask " + word);
      check("done".equals(in.readLine()), "no answer to " + word);
   }

   static Message next(MessageConsumer consumer) throws JMSException {
      Message message = consumer.receive(WAIT);
      check(message != null, "no message came");
      return message;
   }

   static String nextText(MessageConsumer consumer) throws JMSException {
      return ((TextMessage) next(consumer)).getText();
   }

   static void nothing(MessageConsumer consumer) throws JMSException {
      Message message = consumer.receive(NOTHING);
      check(message == null, "a message came: " + message);
   }

   static void check(boolean right, String text) {
      if (!right) {
         throw new AssertionError(text);
      }
   }

   static void same(Object expected, Object actual) {
      check(Objects.deepEquals(expected, actual), "expected <" + expected + "> but was <" + actual + ">");
   }

   /** What must fail, and how. */
   static <E extends Exception> E fails(Class<E> type, Attempt attempt) throws Exception {
      try {
         attempt.run();
      } catch (Exception failure) {
         if (type.isInstance(failure)) {
            return type.cast(failure);
         }
         throw new AssertionError("expected " + type.getSimpleName() + " but was " + failure, failure);
      }
      throw new AssertionError("expected " + type.getSimpleName() + " but nothing was thrown");
   }

   interface Attempt {
      void run() throws Exception;
   }

   @Override
   public void close() throws Exception {
      for (int i = open.size() - 1; i >= 0; i--) {
         open.get(i).close();
      }
   }
}
