package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.HashSet;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
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
