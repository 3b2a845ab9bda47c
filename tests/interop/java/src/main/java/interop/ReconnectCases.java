package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.CompletionListener;
import javax.jms.Connection;
import javax.jms.ConnectionMetaData;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;

/**
 * Connections that break: the URL leads through a relay, and "ask cut" breaks what goes through it. "ask restart"
 * stops the broker in an orderly way and starts it again on the same data.
 */
final class ReconnectCases {
   private static final String FOREVER = "reconnectAttempts=-1";
   private static final String SOON = "retryInterval=50";
   private static final String REATTACH = "confirmationWindowSize=1048576";

   private ReconnectCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("cut-reattach", ReconnectCases::cutReattach);
      cases.put("cut-recreate", ReconnectCases::cutRecreate);
      cases.put("cut-behind-refusal", ReconnectCases::cutBehindRefusal);
      cases.put("cut-behind-rebuild", ReconnectCases::cutBehindRebuild);
      cases.put("cut-behind-rebuild-asynchronous", ReconnectCases::cutBehindRebuildAsynchronous);
      cases.put("cut-transaction", ReconnectCases::cutTransaction);
      cases.put("cut-is-reported", ReconnectCases::cutIsReported);
      cases.put("cut-returns-messages", ReconnectCases::cutReturnsMessages);
      cases.put("restart-keeps-durable", ReconnectCases::restartKeepsDurable);
   }

   /** With a confirmation window the session goes on as if nothing had happened: nothing lost, nothing twice. */
   private static void cutReattach(Broker broker) throws Exception {
      // A cut inside the handshake costs old clients a whole call timeout, against any broker.
      Connection connection = broker.connect(FOREVER, SOON, REATTACH, "callTimeout=5000");
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 300; i++) {
         producer.send(session.createTextMessage("" + i));
         if (i % 100 == 50) {
            broker.ask("cut");
         }
      }
      for (int i = 0; i < 300; i++) {
         same("" + i, nextText(consumer));
         if (i % 100 == 70) {
            broker.ask("cut");
         }
      }
      nothing(consumer);
   }

   /**
    * Without one the session is made anew. A send whose answer was lost is repeated, as a program would do it, and may
    * then be there twice; whatever else comes again is flagged.
    */
   private static void cutRecreate(Broker broker) throws Exception {
      Connection connection = broker.connect(FOREVER, SOON);
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      MessageConsumer consumer = session.createConsumer(queue);
      var seen = new HashSet<String>();
      var repeated = new HashSet<String>();
      for (int i = 0; i < 60; i++) {
         try {
            producer.send(session.createTextMessage("" + i));
         } catch (JMSException unknown) {
            repeated.add("" + i);
            producer.send(session.createTextMessage("" + i));
         }
         if (i % 20 == 10) {
            broker.ask("cut");
         }
      }
      while (seen.size() < 60) {
         Message message = next(consumer);
         String text = ((TextMessage) message).getText();
         boolean mayRepeat = message.getJMSRedelivered() || repeated.contains(text);
         check(seen.add(text) || mayRepeat, "message " + text + " came again without its flag");
      }
   }

   /**
    * A refused request counts for one side and perhaps not for the other. Behind it an answer is lost, and then a send:
    * what is told to have been sent is there, in order, once.
    */
   private static void cutBehindRefusal(Broker broker) throws Exception {
      Connection connection = broker.connect(FOREVER, SOON, REATTACH, "callTimeout=5000");
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      var told = new ArrayList<String>();
      for (int i = 0; i < 3; i++) {
         Broker.fails(JMSException.class, () -> session.createConsumer(queue, "n = = 1"));
         for (String loss : List.of("lose-answer", "lose-send")) {
            broker.ask(loss);
            try {
               producer.send(session.createTextMessage(loss + " " + i));
               told.add(loss + " " + i);
            } catch (JMSException unknown) {
               // Old clients may be cut in the middle of their handshake; then the call ends with its time.
               check(isOld(connection), "the send failed: " + unknown);
            }
         }
      }
      List<String> found = everything(broker, queue);
      same(found.size(), new HashSet<>(found).size());
      found.retainAll(told);
      same(told, found);
   }

   /** Another session has been made again when this returns: the broker does not know the old one. */
   private static Session rebuilt(Broker broker, Connection connection, Queue queue) throws Exception {
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      SessionCases.send(session, queue, "before");
      session.createConsumer(session.createQueue(broker.fresh("other")));
      broker.ask("kill");
      for (boolean sent = false; !sent;) {
         try {
            SessionCases.send(session, queue, "behind");
            sent = true;
         } catch (JMSException unblocked) {
            // The connection broke under it.
         }
      }
      return session;
   }

   /** What a session says while it is made again may be counted by one side alone. Behind that a send is lost. */
   private static void cutBehindRebuild(Broker broker) throws Exception {
      Connection connection = broker.connect(FOREVER, SOON, REATTACH, "callTimeout=5000");
      Queue queue = connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createQueue(broker.fresh("q"));
      Session session = rebuilt(broker, connection, queue);
      MessageProducer producer = session.createProducer(queue);
      var told = new HashSet<String>();
      broker.ask("lose-send");
      for (String text : List.of("lost", "next")) {
         try {
            producer.send(session.createTextMessage(text));
            told.add(text);
         } catch (JMSException unknown) {
            // It is there or not.
         }
      }
      List<String> found = everything(broker, queue);
      told.removeAll(found);
      same(Set.of(), told);
   }

   /** The same with sends that nobody waits for: those whose listeners are told so have been sent. */
   private static void cutBehindRebuildAsynchronous(Broker broker) throws Exception {
      Connection connection = broker.connect(FOREVER, SOON, REATTACH, "callTimeout=5000");
      Queue queue = connection.createSession(false, Session.AUTO_ACKNOWLEDGE).createQueue(broker.fresh("q"));
      Session session = rebuilt(broker, connection, queue);
      MessageProducer producer = session.createProducer(queue);
      Set<String> told = ConcurrentHashMap.newKeySet();
      var ended = new CountDownLatch(5);
      broker.ask("lose-send");
      for (int i = 0; i < 5; i++) {
         producer.send(session.createTextMessage("" + i), new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
               try {
                  told.add(((TextMessage) message).getText());
               } catch (JMSException unreadable) {
                  told.add(unreadable.toString());
               }
               ended.countDown();
            }

            @Override
            public void onException(Message message, Exception unknown) {
               ended.countDown();
            }
         });
      }
      boolean called = ended.await(Broker.WAIT / 2, TimeUnit.MILLISECONDS);
      List<String> found = everything(broker, queue);
      told.removeAll(found);
      same(Set.of(), told);
      // Old clients forget the listeners of sends that were lost behind such a rebuild: they tell nothing.
      check(called || isOld(connection), "listeners were not called");
   }

   private static List<String> everything(Broker broker, Queue queue) throws Exception {
      var found = new ArrayList<String>();
      MessageConsumer consumer = broker.session().createConsumer(queue);
      for (Message message = next(consumer); message != null; message = consumer.receive(500)) {
         found.add(((TextMessage) message).getText());
      }
      return found;
   }

   private static boolean isOld(Connection connection) throws JMSException {
      ConnectionMetaData client = connection.getMetaData();
      return client.getProviderMajorVersion() < 2 || client.getProviderMinorVersion() < 40;
   }

   private static void cutTransaction(Broker broker) throws Exception {
      Connection connection = broker.connect(FOREVER, SOON);
      Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
      Queue queue = session.createQueue(broker.fresh("q"));
      SessionCases.send(session, queue, "lost");
      broker.ask("cut");
      try {
         SessionCases.send(session, queue, "lost too");
      } catch (JMSException unblocked) {
         // The connection may break under the call; what counts is that the commit does not pretend.
      }
      // Rolled back, or in doubt when the commit itself was under way: in either case an error, and nothing is there.
      Broker.fails(JMSException.class, session::commit);
      SessionCases.send(session, queue, "kept");
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      same("kept", nextText(consumer));
      nothing(consumer);
      session.commit();
   }

   private static void cutIsReported(Broker broker) throws Exception {
      Connection connection = broker.connect("reconnectAttempts=0");
      var reported = new CountDownLatch(1);
      connection.setExceptionListener(failure -> reported.countDown());
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      broker.ask("cut");
      check(reported.await(Broker.WAIT, TimeUnit.MILLISECONDS), "the exception listener was not called");
      Broker.fails(JMSException.class, () -> SessionCases.send(session, session.createQueue("any"), "x"));
   }

   /** What a lost connection had not acknowledged goes to the next consumer. */
   private static void cutReturnsMessages(Broker broker) throws Exception {
      Connection connection = broker.connect("reconnectAttempts=0", "blockOnAcknowledge=true");
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      SessionCases.send(session, queue, "a", "b", "c");
      MessageConsumer consumer = session.createConsumer(queue);
      next(consumer).acknowledge();
      same("b", nextText(consumer));
      broker.ask("cut");
      MessageConsumer second = broker.session().createConsumer(queue);
      same("b", nextText(second));
      same("c", nextText(second));
      nothing(second);
   }

   private static void restartKeepsDurable(Broker broker) throws Exception {
      Connection connection = broker.connect(FOREVER, SOON);
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      for (int i = 0; i < 100; i++) {
         SessionCases.send(session, queue, "" + i);
      }
      broker.ask("restart");
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 100; i++) {
         same("" + i, nextText(consumer));
      }
      nothing(consumer);
   }
}
