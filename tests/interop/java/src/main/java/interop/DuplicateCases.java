package interop;

import static interop.Broker.check;
import static interop.Broker.fails;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;
import static interop.SessionCases.send;

import java.util.Map;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;

/** Messages that carry an id under which the broker takes them once. */
final class DuplicateCases {
   private DuplicateCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("duplicates-are-dropped", DuplicateCases::dropped);
      cases.put("duplicates-undo-transactions", DuplicateCases::undoTransactions);
      cases.put("duplicates-after-rollback", DuplicateCases::afterRollback);
      cases.put("duplicates-within-a-transaction", DuplicateCases::withinTransaction);
      cases.put("restart-keeps-duplicate-ids", DuplicateCases::restartKeeps);
   }

   private static void sendWith(Session session, Queue queue, String text, String id) throws JMSException {
      try (MessageProducer producer = session.createProducer(queue)) {
         TextMessage message = session.createTextMessage(text);
         message.setStringProperty("_AMQ_DUPL_ID", id);
         producer.send(message);
      }
   }

   private static void rejected(Session session) throws Exception {
      JMSException failure = fails(JMSException.class, session::commit);
      check(("" + failure.getMessage()).toLowerCase().contains("duplicate"), "the text does not say it: " + failure);
   }

   private static void dropped(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Queue other = session.createQueue(broker.fresh("other"));
      sendWith(session, queue, "one", "id-1");
      sendWith(session, queue, "one again", "id-1");
      sendWith(session, queue, "two", "id-2");
      sendWith(session, other, "another address", "id-1");
      MessageConsumer consumer = session.createConsumer(queue);
      same("one", nextText(consumer));
      same("two", nextText(consumer));
      sendWith(session, queue, "one once more", "id-1");
      nothing(consumer);
      same("another address", nextText(session.createConsumer(other)));
   }

   private static void undoTransactions(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = plain.createQueue(broker.fresh("q"));
      Queue work = plain.createQueue(broker.fresh("work"));
      sendWith(plain, queue, "first", "id");
      send(plain, work, "task");

      Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
      MessageConsumer tasks = session.createConsumer(work);
      same("task", nextText(tasks));
      sendWith(session, queue, "new", "new");
      sendWith(session, queue, "second", "id");
      rejected(session);

      same("task", nextText(tasks));
      sendWith(session, queue, "new again", "new");
      session.commit();
      MessageConsumer consumer = plain.createConsumer(queue);
      same("first", nextText(consumer));
      same("new again", nextText(consumer));
      nothing(consumer);
      nothing(tasks);
   }

   private static void afterRollback(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      sendWith(session, queue, "undone", "id");
      session.rollback();
      sendWith(session, queue, "done", "id");
      session.commit();
      sendWith(session, queue, "too late", "id");
      rejected(session);
      MessageConsumer consumer = session.createConsumer(queue);
      same("done", nextText(consumer));
      nothing(consumer);
   }

   /** A sender that repeats itself in one transaction means it. */
   private static void withinTransaction(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      sendWith(session, queue, "one", "id");
      sendWith(session, queue, "two", "id");
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      same("one", nextText(consumer));
      same("two", nextText(consumer));
      session.commit();
   }

   private static void restartKeeps(Broker broker) throws Exception {
      Connection connection = broker.connect("reconnectAttempts=-1", "retryInterval=50");
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
      sendWith(session, queue, "one", "id-1");
      sendWith(transacted, queue, "two", "id-2");
      transacted.commit();
      broker.ask("restart");
      sendWith(session, queue, "one again", "id-1");
      sendWith(session, queue, "two again", "id-2");
      sendWith(session, queue, "three", "id-3");
      MessageConsumer consumer = session.createConsumer(queue);
      same("one", nextText(consumer));
      same("two", nextText(consumer));
      same("three", nextText(consumer));
      nothing(consumer);
   }
}
