package interop;

import static interop.Broker.check;
import static interop.Broker.fails;
import static interop.Broker.nextText;
import static interop.SessionCases.send;

import java.util.Map;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;

/** What the broker does not do yet: the client is told so in words, and goes on over the same connection. */
final class RefusalCases {
   private RefusalCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("refuses-last-value-queues", RefusalCases::lastValueQueues);
   }

   private static void goesOn(Broker broker, Session session) throws Exception {
      Queue queue = session.createQueue(broker.fresh("after"));
      send(session, queue, "after");
      if (session.getTransacted()) {
         session.commit();
      }
      MessageConsumer consumer = session.createConsumer(queue);
      Broker.same("after", nextText(consumer));
      consumer.close();
   }

   private static void told(JMSException failure, String feature) {
      StringBuilder texts = new StringBuilder();
      for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
         texts.append(cause.getMessage()).append('\n');
      }
      check(texts.toString().contains(feature), "the text does not say it: " + texts);
      check(texts.toString().contains("not supported by this broker yet"), "the text does not say it: " + texts);
   }

   private static void lastValueQueues(Broker broker) throws Exception {
      Session session = broker.session();
      Queue queue = session.createQueue(broker.fresh("q") + "?last-value=true");
      told(fails(JMSException.class, () -> session.createProducer(queue)), "last-value");
      goesOn(broker, session);
   }
}
