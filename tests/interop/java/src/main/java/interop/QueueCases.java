package interop;

import static interop.Broker.check;
import static interop.Broker.fails;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;
import static interop.SessionCases.send;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;

/** What queues do to messages beyond handing them out in turn: kinds of queues, several on one address, dead letters. */
final class QueueCases {
   private QueueCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("exclusive-queue", QueueCases::exclusiveQueue);
      cases.put("max-consumers", QueueCases::maxConsumers);
      cases.put("consumer-priority", QueueCases::consumerPriority);
      cases.put("queue-and-topic-of-one-name", QueueCases::queueAndTopicOfOneName);
      cases.put("queues-of-one-address", QueueCases::queuesOfOneAddress);
      cases.put("dead-letter-queue", QueueCases::deadLetterQueue);
      cases.put("expiry-queue", QueueCases::expiryQueue);
      cases.put("message-groups", QueueCases::messageGroups);
      cases.put("delivery-delay", QueueCases::deliveryDelay);
   }

   private static void exclusiveQueue(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q") + "?exclusive=true");
      send(session, queue, "0");
      MessageConsumer first = session.createConsumer(queue);
      same("0", nextText(first));
      MessageConsumer second = broker.session().createConsumer(queue);
      send(session, queue, "1", "2", "3", "4");
      for (int i = 1; i <= 4; i++) {
         same("" + i, nextText(first));
      }
      nothing(second);
      first.close();
      send(session, queue, "5");
      same("5", nextText(second));
   }

   private static void maxConsumers(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q") + "?max-consumers=1");
      send(session, queue, "a");
      MessageConsumer only = session.createConsumer(queue);
      Session other = broker.session();
      fails(JMSException.class, () -> other.createConsumer(queue));
      same("a", nextText(only));
      only.close();
      send(session, queue, "b");
      same("b", nextText(other.createConsumer(queue)));
   }

   private static void consumerPriority(Broker broker) throws Exception {
      Session session = broker.session();
      String name = broker.fresh("q");
      MessageConsumer low = session.createConsumer(session.createQueue(name + "?consumer-priority=1"));
      MessageConsumer high = broker.session().createConsumer(session.createQueue(name + "?consumer-priority=5"));
      send(session, session.createQueue(name), "0", "1", "2", "3");
      for (int i = 0; i < 4; i++) {
         same("" + i, nextText(high));
      }
      nothing(low);
      high.close();
      send(session, session.createQueue(name), "4");
      same("4", nextText(low));
   }

   private static void queueAndTopicOfOneName(Broker broker) throws Exception {
      Session session = broker.session();
      String name = broker.fresh("both");
      Queue queue = session.createQueue(name);
      Topic topic = session.createTopic(name);
      MessageConsumer one = session.createConsumer(queue);
      MessageConsumer all = session.createConsumer(topic);
      MessageConsumer more = session.createConsumer(topic);
      send(session, queue, "to one");
      try (MessageProducer producer = session.createProducer(topic)) {
         producer.send(session.createTextMessage("to all"));
      }
      same("to one", nextText(one));
      same("to all", nextText(all));
      same("to all", nextText(more));
      nothing(one);
      nothing(all);
   }

   /** Anycast queues of one address: a message goes to one of them, or to the one that is named. */
   private static void queuesOfOneAddress(Broker broker) throws Exception {
      Session session = broker.session();
      String address = broker.fresh("a");
      Queue queue = session.createQueue(address);
      Queue left = session.createQueue(address + "::" + address + ".left");
      Queue right = session.createQueue(address + "::" + address + ".right");
      MessageConsumer[] consumers = {
         session.createConsumer(queue), session.createConsumer(left), session.createConsumer(right)
      };
      send(session, left, "left");
      send(session, right, "right");
      same("left", nextText(consumers[1]));
      same("right", nextText(consumers[2]));
      send(session, queue, "1", "2", "3");
      Set<String> found = new TreeSet<>();
      for (MessageConsumer consumer : consumers) {
         found.add(nextText(consumer));
         nothing(consumer);
      }
      same("[1, 2, 3]", found.toString());
   }

   private static void deadLetterQueue(Broker broker) throws Exception {
      Session session = broker.transacted();
      String name = broker.fresh("q");
      send(session, session.createQueue(name), "poison");
      session.commit();
      MessageConsumer consumer = session.createConsumer(session.createQueue(name));
      for (int attempt = 1; attempt <= 10; attempt++) {
         next(consumer);
         session.rollback();
      }
      moved(broker, "DLQ", name, "poison");
   }

   private static void expiryQueue(Broker broker) throws Exception {
      Session session = broker.session();
      String name = broker.fresh("q");
      try (MessageProducer producer = session.createProducer(session.createQueue(name))) {
         producer.send(session.createTextMessage("milk"), DeliveryMode.PERSISTENT, 4, 1);
         producer.send(session.createTextMessage("honey"), DeliveryMode.PERSISTENT, 4, 0);
      }
      Thread.sleep(5); // the milk goes off
      same("honey", nextText(session.createConsumer(session.createQueue(name))));
      moved(broker, "ExpiryQueue", name, "milk");
   }

   /** The broker's own queues are shared by all cases: each looks for its message alone. */
   private static void moved(Broker broker, String where, String from, String text) throws Exception {
      Session session = broker.session();
      String selector = "_AMQ_ORIG_QUEUE = '" + from + "'";
      MessageConsumer consumer = session.createConsumer(session.createQueue(where), selector);
      Message message = next(consumer);
      same(text, ((TextMessage) message).getText());
      // Artemis leaves the prefix of 1.x names in the address.
      check(message.getStringProperty("_AMQ_ORIG_ADDRESS").endsWith(from), "the original address is another one");
      same(0L, message.getJMSExpiration());
      nothing(consumer);
   }

   /** Two consumers: each group goes to one of them, in order, until it is closed or the group ends. */
   private static void messageGroups(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer first = session.createConsumer(queue);
      MessageConsumer second = broker.session().createConsumer(queue);
      try (MessageProducer producer = session.createProducer(queue)) {
         for (int i = 0; i < 4; i++) {
            producer.send(grouped(session, "a" + i, "a", i));
            producer.send(grouped(session, "b" + i, "b", i));
         }
         Map<String, MessageConsumer> holders = new TreeMap<>();
         for (MessageConsumer consumer : new MessageConsumer[] {first, second}) {
            String text = nextText(consumer);
            String group = text.substring(0, 1);
            holders.put(group, consumer);
            same(group + "0", text);
            for (int i = 1; i < 4; i++) {
               same(group + i, nextText(consumer));
            }
            nothing(consumer);
         }
         same(2, holders.size());
         MessageConsumer rest = holders.get("b");
         holders.get("a").close();
         producer.send(grouped(session, "a4", "a", 4));
         same("a4", nextText(rest));
         // -1 ends the group; JMSXGroupSeq is visible to the receiver.
         producer.send(grouped(session, "a5", "a", -1));
         Message last = next(rest);
         same("a5", ((TextMessage) last).getText());
         same(-1, last.getIntProperty("JMSXGroupSeq"));
         producer.send(grouped(session, "a6", "a", 0));
         same("a6", nextText(rest));
      }
   }

   private static Message grouped(Session session, String text, String group, int sequence) throws JMSException {
      Message message = session.createTextMessage(text);
      message.setStringProperty("JMSXGroupID", group);
      message.setIntProperty("JMSXGroupSeq", sequence);
      return message;
   }

   private static void deliveryDelay(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      long before = System.currentTimeMillis();
      long after;
      try (MessageProducer producer = session.createProducer(queue)) {
         producer.setDeliveryDelay(700);
         producer.send(session.createTextMessage("late"));
         after = System.currentTimeMillis();
         producer.setDeliveryDelay(0);
         producer.send(session.createTextMessage("now"));
      }
      same("now", nextText(consumer));
      Message late = next(consumer);
      same("late", ((TextMessage) late).getText());
      check(System.currentTimeMillis() >= late.getJMSDeliveryTime(), "it came before its time");
      // The client reads the clock for it, and once more for the timestamp.
      long sent = late.getJMSDeliveryTime() - 700;
      check(sent >= before && sent <= after, "delay from " + sent + ", send from " + before + " to " + after);
   }
}
