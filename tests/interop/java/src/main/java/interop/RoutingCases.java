package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.Map;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueConnection;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.api.jms.management.JMSManagementHelper;

/** Wildcard addresses and diverts. */
final class RoutingCases {
   private RoutingCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("wildcard-topics", RoutingCases::wildcardTopics);
      cases.put("wildcard-queue", RoutingCases::wildcardQueue);
      cases.put("wildcard-durable-subscription", RoutingCases::wildcardDurableSubscription);
      cases.put("divert", RoutingCases::divert);
      cases.put("exclusive-divert", RoutingCases::exclusiveDivert);
   }

   private static void send(Session session, Destination destination, String text) throws Exception {
      try (MessageProducer producer = session.createProducer(destination)) {
         producer.send(session.createTextMessage(text));
      }
   }

   private static void wildcardTopics(Broker broker) throws Exception {
      Session session = broker.session();
      String name = broker.fresh("prices");
      MessageConsumer any = session.createConsumer(session.createTopic(name + ".#"));
      MessageConsumer single = session.createConsumer(session.createTopic(name + ".*"));
      MessageConsumer middle = session.createConsumer(session.createTopic(name + ".#.green"));
      for (String topic : new String[] {"", ".tea", ".tea.green", "x"}) {
         send(session, session.createTopic(name + topic), "to" + topic);
      }
      for (String expected : new String[] {"to", "to.tea", "to.tea.green"}) {
         same(expected, nextText(any));
      }
      same("to.tea", nextText(single));
      same("to.tea.green", nextText(middle));
      nothing(any);
      nothing(single);
      nothing(middle);
      any.close();
      send(session, session.createTopic(name + ".tea"), "last");
      same("last", nextText(single));
   }

   private static void wildcardQueue(Broker broker) throws Exception {
      Session session = broker.session();
      String name = broker.fresh("orders");
      MessageConsumer any = session.createConsumer(session.createQueue(name + ".#"));
      send(session, session.createQueue(name + ".eu"), "one");
      same("one", nextText(any));
      MessageConsumer own = session.createConsumer(session.createQueue(name + ".eu"));
      same("one", nextText(own));
      nothing(any);
   }

   private static void wildcardDurableSubscription(Broker broker) throws Exception {
      Session session = broker.connectAs(broker.fresh("id")).createSession(false, Session.AUTO_ACKNOWLEDGE);
      String name = broker.fresh("prices");
      session.createDurableSubscriber(session.createTopic(name + ".#"), "all").close();
      send(session, session.createTopic(name + ".tea"), "kept");
      MessageConsumer again = session.createDurableSubscriber(session.createTopic(name + ".#"), "all");
      same("kept", nextText(again));
      again.close();
      session.unsubscribe("all");
   }

   private static void manage(Broker broker, String operation, Object... arguments) throws Exception {
      QueueConnection connection = broker.factory().createQueueConnection();
      try {
         QueueSession session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
         Queue queue = (Queue) org.apache.activemq.artemis.api.jms.ActiveMQJMSClient.createQueue("activemq.management");
         QueueRequestor requestor = new QueueRequestor(session, queue);
         connection.start();
         Message request = session.createMessage();
         JMSManagementHelper.putOperationInvocation(request, "broker", operation, arguments);
         Message reply = requestor.request(request);
         check(JMSManagementHelper.hasOperationSucceeded(reply), operation + ": " + reply);
      } finally {
         connection.close();
      }
   }

   private static void divert(Broker broker) throws Exception {
      Session session = broker.session();
      String from = broker.fresh("from");
      String to = broker.fresh("to");
      MessageConsumer target = session.createConsumer(session.createQueue(to));
      MessageConsumer source = session.createConsumer(session.createQueue(from));
      manage(broker, "createDivert", to + ".d", to, from, to, false, "colour = 'red'", null);
      for (String colour : new String[] {"red", "blue"}) {
         TextMessage message = session.createTextMessage(colour);
         message.setStringProperty("colour", colour);
         MessageProducer producer = session.createProducer(session.createQueue(from));
         producer.setTimeToLive(600_000);
         producer.send(message);
         producer.close();
      }
      same("red", nextText(source));
      same("blue", nextText(source));
      Message copy = next(target);
      same("red", ((TextMessage) copy).getText());
      same(from, copy.getStringProperty("_AMQ_ORIG_ADDRESS"));
      same(to + ".d", copy.getStringProperty("_AMQ_ORIG_QUEUE"));
      check(copy.propertyExists("_AMQ_ORIG_MESSAGE_ID"), "the original id");
      check(copy.getJMSExpiration() > 0, "the expiration");
      nothing(target);
      manage(broker, "destroyDivert", to + ".d");
      send(session, session.createQueue(from), "after");
      same("after", nextText(source));
      nothing(target);
   }

   private static void exclusiveDivert(Broker broker) throws Exception {
      Session session = broker.session();
      String from = broker.fresh("from");
      String to = broker.fresh("to");
      MessageConsumer target = session.createConsumer(session.createQueue(to));
      MessageConsumer source = session.createConsumer(session.createQueue(from));
      manage(broker, "createDivert", to + ".d", to, from, to, true, null, null);
      Session transacted = broker.transacted();
      send(transacted, transacted.createQueue(from), "undone");
      transacted.rollback();
      send(transacted, transacted.createQueue(from), "taken");
      transacted.commit();
      same("taken", nextText(target));
      nothing(target);
      nothing(source);
      manage(broker, "destroyDivert", to + ".d");
   }
}
