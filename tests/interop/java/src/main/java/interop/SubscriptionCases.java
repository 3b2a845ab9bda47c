package interop;

import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.Map;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.InvalidClientIDException;
import javax.jms.InvalidDestinationException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;

/** Topics and their subscriptions of every kind, temporary destinations, request and reply. */
final class SubscriptionCases {
   private SubscriptionCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("topic-fan-out", SubscriptionCases::topicFanOut);
      cases.put("topic-without-subscriber", SubscriptionCases::topicWithoutSubscriber);
      cases.put("topic-selector", SubscriptionCases::topicSelector);
      cases.put("no-local", SubscriptionCases::noLocal);
      cases.put("durable-subscription", SubscriptionCases::durableSubscription);
      cases.put("durable-subscription-changes", SubscriptionCases::durableSubscriptionChanges);
      cases.put("unsubscribe", SubscriptionCases::unsubscribe);
      cases.put("shared-subscription", SubscriptionCases::sharedSubscription);
      cases.put("shared-durable-subscription", SubscriptionCases::sharedDurableSubscription);
      cases.put("client-id-in-use", SubscriptionCases::clientIdInUse);
      cases.put("request-reply", SubscriptionCases::requestReply);
      cases.put("temporary-queue-ends", SubscriptionCases::temporaryQueueEnds);
      cases.put("temporary-topic", SubscriptionCases::temporaryTopic);
      cases.put("qualified-queue-name", SubscriptionCases::qualifiedQueueName);
   }

   private static void send(Session session, Destination destination, String... texts) throws JMSException {
      try (MessageProducer producer = session.createProducer(destination)) {
         for (String text : texts) {
            producer.send(session.createTextMessage(text));
         }
      }
   }

   private static void topicFanOut(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      MessageConsumer[] consumers = new MessageConsumer[5];
      for (int i = 0; i < consumers.length; i++) {
         consumers[i] = (i < 3 ? session : broker.session()).createConsumer(topic);
      }
      for (int i = 0; i < 50; i++) {
         send(session, topic, "" + i);
      }
      for (MessageConsumer consumer : consumers) {
         for (int i = 0; i < 50; i++) {
            Message message = next(consumer);
            same("" + i, ((TextMessage) message).getText());
            same(topic, message.getJMSDestination());
         }
         nothing(consumer);
      }
   }

   private static void topicWithoutSubscriber(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      send(session, topic, "nobody hears this");
      MessageConsumer consumer = session.createConsumer(topic);
      send(session, topic, "heard");
      same("heard", nextText(consumer));
   }

   private static void topicSelector(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      MessageConsumer big = session.createConsumer(topic, "n > 5");
      MessageConsumer small = session.createConsumer(topic, "n <= 5");
      MessageProducer producer = session.createProducer(topic);
      for (int i = 0; i < 10; i++) {
         Message message = session.createTextMessage("" + i);
         message.setIntProperty("n", i);
         producer.send(message);
      }
      for (int i = 0; i <= 5; i++) {
         same("" + i, nextText(small));
      }
      for (int i = 6; i < 10; i++) {
         same("" + i, nextText(big));
      }
      nothing(small);
      nothing(big);
   }

   private static void noLocal(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      MessageConsumer consumer = session.createConsumer(topic, null, true);
      Session other = broker.session();
      send(session, topic, "own");
      send(other, topic, "foreign");
      same("foreign", nextText(consumer));
      nothing(consumer);
   }

   private static void durableSubscription(Broker broker) throws Exception {
      String clientId = broker.fresh("client");
      Session sending = broker.session();
      Topic topic = sending.createTopic(broker.fresh("t"));
      Connection first = broker.connectAs(clientId);
      Session session = first.createSession(false, Session.AUTO_ACKNOWLEDGE);
      MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
      send(sending, topic, "a");
      same("a", nextText(subscriber));
      first.close();
      send(sending, topic, "b", "c");
      Connection second = broker.connectAs(clientId);
      Session again = second.createSession(false, Session.AUTO_ACKNOWLEDGE);
      MessageConsumer resumed = again.createDurableSubscriber(topic, "sub");
      same("b", nextText(resumed));
      same("c", nextText(resumed));
      nothing(resumed);
      resumed.close();
      again.unsubscribe("sub");
   }

   /** Another topic or selector under the same name makes a new subscription: old messages are gone. */
   private static void durableSubscriptionChanges(Broker broker) throws Exception {
      Connection connection = broker.connectAs(broker.fresh("client"));
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Topic topic = session.createTopic(broker.fresh("t"));
      session.createDurableSubscriber(topic, "sub").close();
      send(session, topic, "before");
      MessageConsumer changed = session.createDurableSubscriber(topic, "sub", "n = 1", false);
      send(session, topic, "without n");
      nothing(changed);
      changed.close();
      session.unsubscribe("sub");
   }

   private static void unsubscribe(Broker broker) throws Exception {
      Connection connection = broker.connectAs(broker.fresh("client"));
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Topic topic = session.createTopic(broker.fresh("t"));
      MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
      Broker.fails(JMSException.class, () -> session.unsubscribe("sub"));
      subscriber.close();
      send(session, topic, "kept for nobody");
      session.unsubscribe("sub");
      Broker.fails(InvalidDestinationException.class, () -> session.unsubscribe("sub"));
      nothing(session.createDurableSubscriber(topic, "sub"));
   }

   private static void sharedSubscription(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      MessageConsumer first = session.createSharedConsumer(topic, "shared");
      MessageConsumer second = session.createSharedConsumer(topic, "shared");
      MessageConsumer alone = session.createSharedConsumer(topic, "alone");
      for (int i = 0; i < 20; i++) {
         send(session, topic, "" + i);
      }
      int sum = 0;
      for (int i = 0; i < 10; i++) {
         sum += Integer.parseInt(nextText(first)) + Integer.parseInt(nextText(second));
      }
      same(190, sum);
      nothing(first);
      nothing(second);
      for (int i = 0; i < 20; i++) {
         same("" + i, nextText(alone));
      }
   }

   private static void sharedDurableSubscription(Broker broker) throws Exception {
      Session session = broker.session();
      Topic topic = session.createTopic(broker.fresh("t"));
      String name = broker.fresh("shared");
      MessageConsumer first = session.createSharedDurableConsumer(topic, name);
      MessageConsumer second = broker.session().createSharedDurableConsumer(topic, name);
      send(session, topic, "a", "b");
      same("ab", nextText(first) + nextText(second));
      first.close();
      second.close();
      send(session, topic, "c");
      MessageConsumer third = session.createSharedDurableConsumer(topic, name);
      same("c", nextText(third));
      third.close();
      session.unsubscribe(name);
   }

   private static void clientIdInUse(Broker broker) throws Exception {
      String clientId = broker.fresh("client");
      Connection first = broker.connectAs(clientId);
      Broker.fails(InvalidClientIDException.class, () -> broker.connectAs(clientId));
      first.close();
      broker.connectAs(clientId);
   }

   private static void requestReply(Broker broker) throws Exception {
      Session session = broker.session();
      Queue requests = session.createQueue(broker.fresh("requests"));
      Session server = broker.session();
      server.createConsumer(requests).setMessageListener(message -> {
         try (MessageProducer producer = server.createProducer(null)) {
            TextMessage reply = server.createTextMessage("re: " + ((TextMessage) message).getText());
            reply.setJMSCorrelationID(message.getJMSMessageID());
            producer.send(message.getJMSReplyTo(), reply);
         } catch (JMSException failure) {
            throw new IllegalStateException(failure);
         }
      });
      TemporaryQueue replies = session.createTemporaryQueue();
      MessageConsumer consumer = session.createConsumer(replies);
      for (int i = 0; i < 20; i++) {
         TextMessage request = session.createTextMessage("" + i);
         request.setJMSReplyTo(replies);
         try (MessageProducer producer = session.createProducer(requests)) {
            producer.send(request);
         }
         Message reply = next(consumer);
         same("re: " + i, ((TextMessage) reply).getText());
         same(request.getJMSMessageID(), reply.getJMSCorrelationID());
      }
   }

   private static void temporaryQueueEnds(Broker broker) throws Exception {
      Connection connection = broker.connect();
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      TemporaryQueue deleted = session.createTemporaryQueue();
      TemporaryQueue closed = session.createTemporaryQueue();
      send(session, deleted, "x");
      MessageConsumer consumer = session.createConsumer(deleted);
      same("x", nextText(consumer));
      Broker.fails(JMSException.class, deleted::delete); // a consumer is there
      consumer.close();
      deleted.delete();
      Session other = broker.session();
      Broker.fails(JMSException.class, () -> session.createConsumer(deleted));
      connection.close();
      Broker.fails(JMSException.class, () -> other.createConsumer(closed));
   }

   private static void temporaryTopic(Broker broker) throws Exception {
      Session session = broker.session();
      TemporaryTopic topic = session.createTemporaryTopic();
      MessageConsumer first = session.createConsumer(topic);
      MessageConsumer second = session.createConsumer(topic);
      send(broker.session(), topic, "to all");
      same("to all", nextText(first));
      same("to all", nextText(second));
      first.close();
      second.close();
      topic.delete();
   }

   /** A consumer names one queue of an address as address::queue: here a durable subscription, read as a queue. */
   private static void qualifiedQueueName(Broker broker) throws Exception {
      String clientId = broker.fresh("client").replace('.', '-');
      Connection connection = broker.connectAs(clientId);
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      String address = broker.fresh("t");
      Topic topic = session.createTopic(address);
      session.createDurableSubscriber(topic, "sub").close();
      send(session, topic, "a");
      MessageConsumer consumer = session.createConsumer(session.createQueue(address + "::" + clientId + ".sub"));
      same("a", nextText(consumer));
      consumer.close();
      session.unsubscribe("sub");
   }
}
