package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.CompletionListener;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSContext;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;

/** Connections and sessions as such: start, stop, close, windows, asynchronous sends, many at once. */
final class ConnectionCases {
   private ConnectionCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("stop-and-start", ConnectionCases::stopAndStart);
      cases.put("close-wakes-receive", ConnectionCases::closeWakesReceive);
      cases.put("context", ConnectionCases::context);
      cases.put("asynchronous-send", ConnectionCases::asynchronousSend);
      cases.put("producer-window", ConnectionCases::producerWindow);
      cases.put("consumer-window-0", ConnectionCases::consumerWindow0);
      cases.put("consumer-window-1", ConnectionCases::consumerWindow1);
      cases.put("consumer-window-unlimited", ConnectionCases::consumerWindowUnlimited);
      cases.put("confirmation-window", ConnectionCases::confirmationWindow);
      cases.put("non-blocking-durable", ConnectionCases::nonBlockingDurable);
      cases.put("50-sessions", ConnectionCases::fiftySessions);
      cases.put("50-connections", ConnectionCases::fiftyConnections);
      cases.put("anonymous-producer", ConnectionCases::anonymousProducer);
   }

   private static void stopAndStart(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      connection.stop();
      SessionCases.send(session, queue, "a");
      check(consumer.receive(Broker.NOTHING) == null, "delivered while stopped");
      connection.start();
      same("a", nextText(consumer));
   }

   private static void closeWakesReceive(Broker broker) throws Exception {
      Session session = broker.session();
      MessageConsumer consumer = session.createConsumer(session.createQueue(broker.fresh("q")));
      var waiting = new CountDownLatch(1);
      CompletableFuture<Message> received = CompletableFuture.supplyAsync(() -> {
         waiting.countDown();
         try {
            return consumer.receive(Broker.WAIT);
         } catch (javax.jms.JMSException closed) {
            return null;
         }
      });
      waiting.await();
      consumer.close();
      same(null, received.get(Broker.WAIT / 2, TimeUnit.MILLISECONDS));
   }

   private static void context(Broker broker) throws Exception {
      try (JMSContext context = broker.factory().createContext(JMSContext.SESSION_TRANSACTED)) {
         Queue queue = context.createQueue(broker.fresh("q"));
         context.createProducer().setProperty("n", 1).setPriority(8).send(queue, "text");
         context.commit();
         var consumer = context.createConsumer(queue, "n = 1");
         Message message = consumer.receive(Broker.WAIT);
         same("text", message.getBody(String.class));
         same(8, message.getJMSPriority());
         context.commit();
      }
   }

   private static void asynchronousSend(Broker broker) throws Exception {
      Session session = broker.session("confirmationWindowSize=1048576");
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      var completed = new CountDownLatch(200);
      var failures = new AtomicInteger();
      for (int i = 0; i < 200; i++) {
         producer.send(session.createTextMessage("" + i), new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
               completed.countDown();
            }

            @Override
            public void onException(Message message, Exception failure) {
               failures.incrementAndGet();
               completed.countDown();
            }
         });
      }
      check(completed.await(Broker.WAIT, TimeUnit.MILLISECONDS), completed.getCount() + " sends did not complete");
      same(0, failures.get());
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 200; i++) {
         same("" + i, nextText(consumer));
      }
   }

   private static void sendAndReceive(Broker broker, int count, int mode, String... parameters) throws Exception {
      Connection connection = broker.connect(parameters);
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      producer.setDeliveryMode(mode);
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < count; i++) {
         producer.send(session.createTextMessage(i + " " + "z".repeat(500)));
      }
      for (int i = 0; i < count; i++) {
         check(nextText(consumer).startsWith(i + " "), "message " + i);
      }
      nothing(consumer);
   }

   private static void producerWindow(Broker broker) throws Exception {
      sendAndReceive(broker, 500, DeliveryMode.NON_PERSISTENT, "producerWindowSize=4096");
   }

   private static void consumerWindow0(Broker broker) throws Exception {
      sendAndReceive(broker, 100, DeliveryMode.NON_PERSISTENT, "consumerWindowSize=0");
   }

   private static void consumerWindow1(Broker broker) throws Exception {
      sendAndReceive(broker, 100, DeliveryMode.NON_PERSISTENT, "consumerWindowSize=1");
   }

   private static void consumerWindowUnlimited(Broker broker) throws Exception {
      sendAndReceive(broker, 500, DeliveryMode.NON_PERSISTENT, "consumerWindowSize=-1");
   }

   private static void confirmationWindow(Broker broker) throws Exception {
      sendAndReceive(broker, 500, DeliveryMode.PERSISTENT, "confirmationWindowSize=10240");
   }

   private static void nonBlockingDurable(Broker broker) throws Exception {
      sendAndReceive(broker, 1000, DeliveryMode.PERSISTENT, "blockOnDurableSend=false");
   }

   private static void fiftySessions(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Queue queue = null;
      for (int i = 0; i < 50; i++) {
         Session session = connection.createSession(i % 2 == 0, Session.AUTO_ACKNOWLEDGE);
         queue = session.createQueue(broker.fresh("q" + i));
         SessionCases.send(session, queue, "" + i);
         if (i % 2 == 0) {
            session.commit();
         }
         same("" + i, nextText(session.createConsumer(queue)));
      }
   }

   private static void fiftyConnections(Broker broker) throws Exception {
      var factory = broker.factory();
      String name = broker.fresh("q");
      Connection[] connections = new Connection[50];
      for (int i = 0; i < connections.length; i++) {
         connections[i] = factory.createConnection();
         connections[i].start();
         Session session = connections[i].createSession(false, Session.AUTO_ACKNOWLEDGE);
         SessionCases.send(session, session.createQueue(name), "" + i);
      }
      Session session = connections[0].createSession(false, Session.AUTO_ACKNOWLEDGE);
      MessageConsumer consumer = session.createConsumer(session.createQueue(name));
      for (int i = 0; i < connections.length; i++) {
         same("" + i, nextText(consumer));
      }
      for (Connection connection : connections) {
         connection.close();
      }
   }

   private static void anonymousProducer(Broker broker) throws Exception {
      Session session = broker.session();
      MessageProducer producer = session.createProducer(null);
      for (int i = 0; i < 5; i++) {
         Queue queue = session.createQueue(broker.fresh("q" + i));
         producer.send(queue, session.createTextMessage("" + i));
         Message message = next(session.createConsumer(queue));
         same(queue, message.getJMSDestination());
      }
   }
}
