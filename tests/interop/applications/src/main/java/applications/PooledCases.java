package applications;

import static applications.Outside.check;
import static applications.Outside.same;

import jakarta.jms.Connection;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.JMSRuntimeException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.activemq.artemis.jms.client.ActiveMQJMSConnectionFactory;
import org.messaginghub.pooled.jms.JmsPoolConnectionFactory;

/** pooled-jms over the client of Artemis: a pool of connections, of their sessions, and of anonymous producers. */
final class PooledCases {
   private static final int CONNECTIONS = 2;
   private static final int THREADS = 16;
   private static final int ROUNDS = 25;

   private PooledCases() {
   }

   static void addTo(Map<String, Applications.Case> cases) {
      cases.put("pooled-many-threads", PooledCases::manyThreads);
      cases.put("pooled-sessions-come-back-clean", PooledCases::sessionsComeBackClean);
      cases.put("pooled-contexts", PooledCases::contexts);
      cases.put("pooled-goes-on-after-a-kill", PooledCases::goesOnAfterAKill);
   }

   /** The factory below a pool, which counts the connections that the pool makes. */
   private static final class Counted extends ActiveMQJMSConnectionFactory {
      private static final long serialVersionUID = 1;
      private final transient AtomicInteger made = new AtomicInteger();

      Counted(String url) {
         super(url);
      }

      @Override
      public Connection createConnection() throws JMSException {
         made.incrementAndGet();
         return super.createConnection();
      }
   }

   private static final class Pool implements AutoCloseable {
      final Counted below;
      final JmsPoolConnectionFactory factory = new JmsPoolConnectionFactory();

      Pool(Outside outside) {
         below = new Counted(outside.url);
         factory.setConnectionFactory(below);
         factory.setMaxConnections(CONNECTIONS);
         factory.setMaxSessionsPerConnection(THREADS);
      }

      void send(String queue, String text) throws JMSException {
         try (Connection connection = factory.createConnection();
               Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE)) {
            session.createProducer(session.createQueue(queue)).send(session.createTextMessage(text));
         }
      }

      String take(String queue, long wait) throws JMSException {
         try (Connection connection = factory.createConnection()) {
            connection.start();
            try (Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
                  MessageConsumer consumer = session.createConsumer(session.createQueue(queue))) {
               TextMessage message = (TextMessage) consumer.receive(wait);
               return message == null ? null : message.getText();
            }
         }
      }

      @Override
      public void close() {
         factory.stop();
      }
   }

   /** Threads that open and close everything for each message, as a program without a pool must not. */
   private static void manyThreads(Outside outside) throws Exception {
      String queue = outside.fresh("q");
      ExecutorService threads = Executors.newFixedThreadPool(THREADS);
      try (Pool pool = new Pool(outside)) {
         List<Future<Object>> work = new ArrayList<>();
         for (int thread = 0; thread < THREADS; thread++) {
            int own = thread;
            work.add(threads.submit(() -> {
               for (int round = 0; round < ROUNDS; round++) {
                  pool.send(queue, own + "-" + round);
               }
               return null;
            }));
         }
         for (Future<Object> one : work) {
            one.get(Outside.WAIT_MS, TimeUnit.MILLISECONDS);
         }
         same(CONNECTIONS, pool.factory.getNumConnections());
         same(CONNECTIONS, pool.below.made.get());
         Set<String> found = new TreeSet<>();
         while (found.size() < THREADS * ROUNDS) {
            String text = pool.take(queue, Outside.WAIT_MS);
            check(text != null, "only " + found.size() + " came");
            check(found.add(text), text + " came twice");
         }
         same(null, pool.take(queue, Outside.NOTHING_MS));
         same(CONNECTIONS, pool.below.made.get());
      } finally {
         threads.shutdownNow();
      }
   }

   /** A session that is closed with work undone goes back into the pool without it. */
   private static void sessionsComeBackClean(Outside outside) throws Exception {
      String queue = outside.fresh("q");
      try (Pool pool = new Pool(outside)) {
         pool.send(queue, "kept");
         for (int round = 0; round < 3; round++) {
            try (Connection connection = pool.factory.createConnection()) {
               connection.start();
               Session session = connection.createSession(Session.SESSION_TRANSACTED);
               Queue destination = session.createQueue(queue);
               MessageConsumer consumer = session.createConsumer(destination);
               same("kept", ((TextMessage) consumer.receive(Outside.WAIT_MS)).getText());
               session.createProducer(destination).send(session.createTextMessage("undone"));
               session.createTemporaryQueue();
               session.close();
            }
         }
         try (Connection connection = pool.factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(Session.SESSION_TRANSACTED);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            TextMessage message = (TextMessage) consumer.receive(Outside.WAIT_MS);
            same("kept", message.getText());
            same(4, message.getIntProperty("JMSXDeliveryCount"));
            same(null, consumer.receive(Outside.NOTHING_MS));
            session.commit();
            session.close();
         }
         same(null, pool.take(queue, Outside.NOTHING_MS));
      }
   }

   private static void contexts(Outside outside) throws Exception {
      String queue = outside.fresh("q");
      try (Pool pool = new Pool(outside)) {
         for (int round = 0; round < 20; round++) {
            try (JMSContext context = pool.factory.createContext(JMSContext.SESSION_TRANSACTED)) {
               Queue destination = context.createQueue(queue);
               context.createProducer().setProperty("round", round).send(destination, "text " + round);
               context.commit();
               try (var consumer = context.createConsumer(destination)) {
                  TextMessage message = (TextMessage) consumer.receive(Outside.WAIT_MS);
                  same("text " + round, message.getText());
                  same(round, message.getIntProperty("round"));
               }
               context.commit();
            }
         }
         check(pool.below.made.get() <= CONNECTIONS, "connections: " + pool.below.made);
      }
   }

   /** Connections that the kill has broken leave the pool: the next ones are new. */
   private static void goesOnAfterAKill(Outside outside) throws Exception {
      String queue = outside.fresh("q");
      try (Pool pool = new Pool(outside)) {
         pool.send(queue, "before");
         outside.ask("kill");
         long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Outside.RECOVERY_MS);
         while (true) {
            try {
               pool.send(queue, "after");
               break;
            } catch (JMSException | JMSRuntimeException lost) {
               check(System.nanoTime() < deadline, "the pool did not reconnect: " + lost);
            }
         }
         same("before", pool.take(queue, Outside.WAIT_MS));
         same("after", pool.take(queue, Outside.WAIT_MS));
         check(pool.below.made.get() > 1, "the pool kept a broken connection");
      }
   }
}
