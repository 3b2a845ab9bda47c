package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;

/** Acknowledge modes, transactions, redelivery, listeners. */
final class SessionCases {
   private static final int PRE_ACKNOWLEDGE = 100;
   private static final int INDIVIDUAL_ACKNOWLEDGE = 101;
   private static final int MAX_DELIVERY_ATTEMPTS = 10;

   private SessionCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("commit", SessionCases::commit);
      cases.put("rollback-of-sends", SessionCases::rollbackOfSends);
      cases.put("rollback-of-receives", SessionCases::rollbackOfReceives);
      cases.put("transaction-of-1000", SessionCases::transactionOf1000);
      cases.put("close-rolls-back", SessionCases::closeRollsBack);
      cases.put("client-acknowledge", SessionCases::clientAcknowledge);
      cases.put("recover", SessionCases::recover);
      cases.put("individual-acknowledge", SessionCases::individualAcknowledge);
      cases.put("pre-acknowledge", SessionCases::preAcknowledge);
      cases.put("dups-ok", SessionCases::dupsOk);
      cases.put("delivery-attempts", SessionCases::deliveryAttempts);
      cases.put("listener", SessionCases::listener);
      cases.put("failing-listener", SessionCases::failingListener);
      cases.put("redelivered-in-order", SessionCases::redeliveredInOrder);
   }

   static void send(Session session, Queue queue, String... texts) throws Exception {
      try (MessageProducer producer = session.createProducer(queue)) {
         for (String text : texts) {
            producer.send(session.createTextMessage(text));
         }
      }
   }

   private static void commit(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
      Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = other.createConsumer(queue);
      send(session, queue, "a", "b");
      nothing(consumer);
      session.commit();
      same("a", nextText(consumer));
      same("b", nextText(consumer));
      nothing(consumer);
   }

   private static void rollbackOfSends(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "lost");
      session.rollback();
      send(session, queue, "kept");
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      same("kept", nextText(consumer));
      nothing(consumer);
      session.commit();
   }

   private static void rollbackOfReceives(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "a", "b");
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      for (int attempt = 1; attempt <= 3; attempt++) {
         for (String text : new String[] {"a", "b"}) {
            Message message = next(consumer);
            same(text, ((TextMessage) message).getText());
            same(attempt > 1, message.getJMSRedelivered());
            same(attempt, message.getIntProperty("JMSXDeliveryCount"));
         }
         if (attempt < 3) {
            session.rollback();
         }
      }
      session.commit();
      nothing(consumer);
   }

   private static void transactionOf1000(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      for (int i = 0; i < 1000; i++) {
         producer.send(session.createTextMessage("" + i));
      }
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 1000; i++) {
         same("" + i, nextText(consumer));
      }
      session.commit();
      nothing(consumer);
   }

   private static void closeRollsBack(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
      Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      send(other, queue, "kept");
      MessageConsumer consumer = session.createConsumer(queue);
      same("kept", nextText(consumer));
      send(session, queue, "lost");
      session.close();
      MessageConsumer last = other.createConsumer(queue);
      same("kept", nextText(last));
      nothing(last);
   }

   private static void clientAcknowledge(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "a", "b", "c", "d");
      MessageConsumer consumer = session.createConsumer(queue);
      next(consumer);
      next(consumer).acknowledge();
      same("c", nextText(consumer));
      session.close();
      Session second = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      MessageConsumer again = second.createConsumer(queue);
      same("c", nextText(again));
      Message last = next(again);
      same("d", ((TextMessage) last).getText());
      last.acknowledge();
      nothing(again);
   }

   private static void recover(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "a", "b");
      MessageConsumer consumer = session.createConsumer(queue);
      next(consumer);
      next(consumer);
      session.recover();
      Message message = next(consumer);
      same("a", ((TextMessage) message).getText());
      check(message.getJMSRedelivered(), "not marked as redelivered");
      next(consumer).acknowledge();
      nothing(consumer);
   }

   private static void individualAcknowledge(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, INDIVIDUAL_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "a", "b", "c");
      MessageConsumer consumer = session.createConsumer(queue);
      next(consumer);
      Message second = next(consumer);
      next(consumer);
      second.acknowledge();
      session.close();
      Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      MessageConsumer again = other.createConsumer(queue);
      same("a", nextText(again));
      same("c", nextText(again));
      nothing(again);
   }

   private static void preAcknowledge(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, PRE_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "a");
      MessageConsumer consumer = session.createConsumer(queue);
      same("a", nextText(consumer));
      session.close();
      Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      nothing(other.createConsumer(queue));
   }

   private static void dupsOk(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      for (int i = 0; i < 500; i++) {
         producer.send(session.createTextMessage("" + i));
      }
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 500; i++) {
         same("" + i, nextText(consumer));
      }
      session.close();
      Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      nothing(other.createConsumer(queue));
   }

   /** With the default of ten attempts the eleventh delivery does not come; the next message does. */
   private static void deliveryAttempts(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      send(session, queue, "poison");
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      for (int attempt = 1; attempt <= MAX_DELIVERY_ATTEMPTS; attempt++) {
         same(attempt, next(consumer).getIntProperty("JMSXDeliveryCount"));
         session.rollback();
      }
      nothing(consumer);
      send(session, queue, "healthy");
      session.commit();
      same("healthy", nextText(consumer));
      session.commit();
   }

   private static void listener(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Session sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      var received = new LinkedBlockingQueue<String>();
      session.createConsumer(queue).setMessageListener(message -> {
         try {
            received.add(((TextMessage) message).getText());
         } catch (Exception failure) {
            received.add(failure.toString());
         }
      });
      for (int i = 0; i < 200; i++) {
         send(sending, queue, "" + i);
      }
      for (int i = 0; i < 200; i++) {
         same("" + i, received.poll(Broker.WAIT, TimeUnit.MILLISECONDS));
      }
   }

   private static void failingListener(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Session sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue(broker.fresh("q"));
      var attempts = new AtomicInteger();
      var flags = new ArrayList<Boolean>();
      var done = new CountDownLatch(3);
      session.createConsumer(queue).setMessageListener(message -> {
         try {
            flags.add(message.getJMSRedelivered());
         } catch (Exception failure) {
            flags.add(null);
         }
         done.countDown();
         if (attempts.incrementAndGet() < 3) {
            throw new IllegalStateException("listener fails on purpose");
         }
      });
      send(sending, queue, "a");
      check(done.await(Broker.WAIT, TimeUnit.MILLISECONDS), "only " + attempts + " attempts");
      same(List.of(false, true, true), flags);
   }

   private static void redeliveredInOrder(Broker broker) throws Exception {
      Session session = broker.transacted();
      Queue queue = session.createQueue(broker.fresh("q"));
      for (int i = 0; i < 50; i++) {
         send(session, queue, "" + i);
      }
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 20; i++) {
         same("" + i, nextText(consumer));
      }
      session.rollback();
      for (int i = 0; i < 50; i++) {
         same("" + i, nextText(consumer));
      }
      session.commit();
      nothing(consumer);
   }
}
