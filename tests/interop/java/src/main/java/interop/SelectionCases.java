package interop;

import static interop.Broker.check;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import javax.jms.DeliveryMode;
import javax.jms.InvalidSelectorException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;

/** Selectors, browsers, priorities, expiry, order, sharing among consumers, counts. */
final class SelectionCases {
   private SelectionCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("selectors", SelectionCases::selectors);
      cases.put("selector-leaves-others", SelectionCases::selectorLeavesOthers);
      cases.put("invalid-selector", SelectionCases::invalidSelector);
      cases.put("browse", SelectionCases::browse);
      cases.put("browse-with-selector", SelectionCases::browseWithSelector);
      cases.put("priorities", SelectionCases::priorities);
      cases.put("expiry", SelectionCases::expiry);
      cases.put("order-of-1000", SelectionCases::orderOf1000);
      cases.put("two-consumers-share", SelectionCases::twoConsumersShare);
      cases.put("receive-no-wait", SelectionCases::receiveNoWait);
      cases.put("20000-messages", SelectionCases::twentyThousandMessages);
      cases.put("2000-durable-messages", SelectionCases::twoThousandDurableMessages);
   }

   private static final String[][] SELECTORS = {
      // selector, texts of the messages it takes (message i: n=i, half=i/2.0, even, name=m<i>, odd ones have "odd")
      {"n = 3", "3"},
      {"n > 7", "8 9"},
      {"n <> 0 AND n < 3", "1 2"},
      {"NOT (n >= 2)", "0 1"},
      {"n BETWEEN 4 AND 6", "4 5 6"},
      {"n NOT BETWEEN 1 AND 8", "0 9"},
      {"n IN ('x') OR name IN ('m2', 'm4')", "2 4"},
      {"name NOT IN ('m0','m1','m2','m3','m4','m5','m6','m7')", "8 9"},
      {"name LIKE 'm%' AND n = 5", "5"},
      {"name LIKE '_7'", "7"},
      {"name LIKE 'm!_' ESCAPE '!'", ""},
      {"odd IS NOT NULL AND n < 4", "1 3"},
      {"odd IS NULL AND n < 4", "0 2"},
      {"even = TRUE AND n > 5", "6 8"},
      {"half = 1.5", "3"},
      {"half * 2 + 1 = 8", "7"},
      {"-n < -8", "9"},
      {"n / 2 = 4 AND n - 1 = 7", "8"},
      {"JMSPriority = 9", "9"},
      {"JMSType = 't1'", "1"},
      {"JMSCorrelationID = 'c4'", "4"},
      {"JMSDeliveryMode = 'NON_PERSISTENT' AND n < 2", "0 1"},
      {"name = 'm1' OR name = 'm2' AND n = 9", "1"},
      {"missing = 1", ""},
      {"missing = 1 OR n = 6", "6"},
      {"text = 'it''s'", "0 1 2 3 4 5 6 7 8 9"},
      {"n = 0x2 OR n = 1e0", "1 2"},
   };

   private static void selectors(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      for (int i = 0; i < 10; i++) {
         TextMessage message = session.createTextMessage("" + i);
         message.setIntProperty("n", i);
         message.setDoubleProperty("half", i / 2.0);
         message.setBooleanProperty("even", i % 2 == 0);
         message.setStringProperty("name", "m" + i);
         message.setStringProperty("text", "it's");
         if (i % 2 == 1) {
            message.setStringProperty("odd", "yes");
         }
         message.setJMSType("t" + i);
         message.setJMSCorrelationID("c" + i);
         producer.send(message, DeliveryMode.NON_PERSISTENT, i == 9 ? 9 : 4, 0);
      }
      var wrong = new ArrayList<String>();
      for (String[] row : SELECTORS) {
         var texts = new ArrayList<String>();
         try (QueueBrowser browser = session.createBrowser(queue, row[0])) {
            for (Object message : Collections.list(browser.getEnumeration())) {
               texts.add(((TextMessage) message).getText());
            }
         }
         Collections.sort(texts);
         if (!String.join(" ", texts).equals(row[1])) {
            wrong.add(row[0] + " took <" + String.join(" ", texts) + "> instead of <" + row[1] + ">");
         }
      }
      check(wrong.isEmpty(), String.join("; ", wrong));
   }

   private static void selectorLeavesOthers(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      for (int i = 0; i < 20; i++) {
         TextMessage message = session.createTextMessage("" + i);
         message.setStringProperty("colour", i % 2 == 0 ? "red" : "blue");
         producer.send(message);
      }
      MessageConsumer red = session.createConsumer(queue, "colour = 'red'");
      for (int i = 0; i < 20; i += 2) {
         same("" + i, nextText(red));
      }
      nothing(red);
      red.close();
      MessageConsumer all = session.createConsumer(queue);
      for (int i = 1; i < 20; i += 2) {
         same("" + i, nextText(all));
      }
      nothing(all);
   }

   private static void invalidSelector(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      Broker.fails(InvalidSelectorException.class, () -> session.createConsumer(queue, "n = = 1"));
      SessionCases.send(session, queue, "still alive");
      same("still alive", nextText(session.createConsumer(queue)));
   }

   private static void browse(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      for (int i = 0; i < 100; i++) {
         SessionCases.send(session, queue, "" + i);
      }
      for (int round = 0; round < 2; round++) {
         try (QueueBrowser browser = session.createBrowser(queue)) {
            List<?> seen = Collections.list(browser.getEnumeration());
            same(100, seen.size());
            same("99", ((TextMessage) seen.get(99)).getText());
         }
      }
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < 100; i++) {
         same("" + i, nextText(consumer));
      }
      try (QueueBrowser browser = session.createBrowser(queue)) {
         check(!browser.getEnumeration().hasMoreElements(), "the queue is empty");
      }
   }

   private static void browseWithSelector(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      for (int i = 0; i < 10; i++) {
         Message message = session.createMessage();
         message.setIntProperty("n", i);
         producer.send(message);
      }
      try (QueueBrowser browser = session.createBrowser(queue, "n >= 7")) {
         same(3, Collections.list(browser.getEnumeration()).size());
      }
   }

   private static void priorities(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      for (int round = 0; round < 2; round++) {
         for (int priority : new int[] {0, 9, 4, 5, 1, 8, 2, 7, 3, 6}) {
            String text = priority + "-" + round;
            producer.send(session.createTextMessage(text), DeliveryMode.PERSISTENT, priority, 0);
         }
      }
      MessageConsumer consumer = session.createConsumer(queue);
      for (int priority = 9; priority >= 0; priority--) {
         for (int round = 0; round < 2; round++) {
            Message message = next(consumer);
            same(priority + "-" + round, ((TextMessage) message).getText());
            same(priority, message.getJMSPriority());
         }
      }
   }

   /** The short-lived message is sent first, so its time is over when the consumer comes after the wait. */
   private static void expiry(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      producer.send(session.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 50);
      producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 600_000);
      nothing(session.createConsumer(session.createQueue(broker.fresh("other"))));
      MessageConsumer consumer = session.createConsumer(queue);
      same("long", nextText(consumer));
      nothing(consumer);
   }

   private static void orderOf1000(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      MessageProducer producer = session.createProducer(queue);
      producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
      for (int i = 0; i < 1000; i++) {
         producer.send(session.createTextMessage("" + i));
      }
      for (int i = 0; i < 1000; i++) {
         same("" + i, nextText(consumer));
      }
   }

   private static void twoConsumersShare(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer first = session.createConsumer(queue);
      MessageConsumer second = broker.session().createConsumer(queue);
      for (int i = 0; i < 100; i++) {
         SessionCases.send(session, queue, "" + i);
      }
      for (int i = 0; i < 50; i++) {
         int a = Integer.parseInt(nextText(first));
         int b = Integer.parseInt(nextText(second));
         check(a + b == 4 * i + 1, "round robin gave " + a + " and " + b + " in round " + i);
      }
      nothing(first);
      nothing(second);
   }

   private static void receiveNoWait(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageConsumer consumer = session.createConsumer(queue);
      check(consumer.receiveNoWait() == null, "the queue is empty");
      SessionCases.send(session, queue, "a");
      same("a", ((TextMessage) consumer.receiveNoWait()).getText());
      check(consumer.receiveNoWait() == null, "the queue is empty again");
   }

   private static void twentyThousandMessages(Broker broker) throws Exception {
      sendAndCount(broker, 20_000, DeliveryMode.NON_PERSISTENT);
   }

   private static void twoThousandDurableMessages(Broker broker) throws Exception {
      sendAndCount(broker, 2_000, DeliveryMode.PERSISTENT);
   }

   private static void sendAndCount(Broker broker, int count, int mode) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q"));
      MessageProducer producer = session.createProducer(queue);
      producer.setDeliveryMode(mode);
      String filling = "y".repeat(1000);
      for (int i = 0; i < count; i++) {
         producer.send(session.createTextMessage(i + " " + filling));
      }
      MessageConsumer consumer = session.createConsumer(queue);
      for (int i = 0; i < count; i++) {
         same(i + " " + filling, nextText(consumer));
      }
      nothing(consumer);
   }
}
