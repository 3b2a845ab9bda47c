package applications;

import static applications.Outside.check;
import static applications.Outside.same;

import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.activemq.artemis.jms.client.ActiveMQJMSConnectionFactory;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.jms.JmsComponent;
import org.apache.camel.impl.DefaultCamelContext;

/** Routes of Camel's JMS component, with which many integrations move messages from one address to another. */
final class CamelCases {
   private static final int COUNT = 60;

   private CamelCases() {
   }

   static void addTo(Map<String, Applications.Case> cases) {
      cases.put("camel-transacted-route", CamelCases::transactedRoute);
      cases.put("camel-bridge-to-a-topic", CamelCases::bridgeToATopic);
      cases.put("camel-request-and-reply", CamelCases::requestAndReply);
      cases.put("camel-goes-on-after-a-kill", CamelCases::goesOnAfterAKill);
   }

   /** A running route, and a session beside it. */
   private static final class Running implements AutoCloseable {
      final DefaultCamelContext camel = new DefaultCamelContext();
      Connection connection;
      Session session;
      private final ConnectionFactory factory;

      Running(Outside outside) throws Exception {
         factory = new ActiveMQJMSConnectionFactory(outside.url);
         JmsComponent component = JmsComponent.jmsComponentAutoAcknowledge(factory);
         component.setRequestTimeout(Outside.WAIT_MS);
         JmsComponent transacted = JmsComponent.jmsComponentTransacted(factory);
         for (JmsComponent each : List.of(component, transacted)) {
            each.setRecoveryInterval(100);
            // What ends a route, or changes the selector of a shared queue of replies, waits for this.
            each.setReceiveTimeout(100);
         }
         camel.addComponent("jms", component);
         camel.addComponent("transacted", transacted);
         connect();
      }

      void connect() throws JMSException {
         connection = factory.createConnection();
         connection.start();
         session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
      }

      void route(RouteBuilder routes) throws Exception {
         camel.addRoutes(routes);
         camel.start();
      }

      void send(String queue, int from, int to) throws JMSException {
         try (MessageProducer producer = session.createProducer(session.createQueue(queue))) {
            for (int number = from; number < to; number++) {
               TextMessage message = session.createTextMessage(String.valueOf(number));
               message.setIntProperty("number", number);
               message.setJMSCorrelationID("order-" + number);
               producer.send(message);
            }
         }
      }

      /** Everything that comes until each number did; none may be there more often than once. */
      void takesOnce(MessageConsumer consumer, int to) throws JMSException {
         for (Set<Integer> found = new TreeSet<>(); found.size() < to; ) {
            TextMessage message = (TextMessage) consumer.receive(Outside.WAIT_MS);
            check(message != null, "only these came: " + found);
            int number = Integer.parseInt(message.getText());
            check(found.add(number), number + " came twice");
            same(number, message.getIntProperty("number"));
            same("order-" + number, message.getJMSCorrelationID());
         }
         same(null, consumer.receive(Outside.NOTHING_MS));
      }

      @Override
      public void close() throws Exception {
         camel.stop();
         connection.close();
      }
   }

   /** Each third message fails at its first attempt: what the route has sent by then is undone. */
   private static void transactedRoute(Outside outside) throws Exception {
      String in = outside.fresh("in");
      String out = outside.fresh("out");
      Set<Integer> failed = new TreeSet<>();
      AtomicInteger redelivered = new AtomicInteger();
      try (Running running = new Running(outside)) {
         running.route(new RouteBuilder() {
            @Override
            public void configure() {
               errorHandler(noErrorHandler());
               from("transacted:queue:" + in).to("transacted:queue:" + out).process(exchange -> {
                  int number = exchange.getMessage().getHeader("number", Integer.class);
                  if (exchange.getMessage().getHeader("JMSRedelivered", Boolean.class)) {
                     redelivered.incrementAndGet();
                  }
                  if (number % 3 == 0 && failed.add(number)) {
                     throw new IllegalStateException("on purpose");
                  }
               });
            }
         });
         running.send(in, 0, COUNT);
         running.takesOnce(running.session.createConsumer(running.session.createQueue(out)), COUNT);
         running.camel.stop();
         same(COUNT / 3, failed.size());
         check(redelivered.get() >= COUNT / 3, "redelivered: " + redelivered);
         same(null, running.session.createConsumer(running.session.createQueue(in)).receive(Outside.NOTHING_MS));
      }
   }

   private static void bridgeToATopic(Outside outside) throws Exception {
      String in = outside.fresh("in");
      String topic = outside.fresh("topic");
      String end = outside.fresh("end");
      try (Running running = new Running(outside)) {
         Session session = running.session;
         MessageConsumer subscriber = session.createConsumer(session.createTopic(topic));
         running.route(new RouteBuilder() {
            @Override
            public void configure() {
               from("jms:queue:" + in + "?concurrentConsumers=3").to("jms:topic:" + topic);
               String subscription = "?subscriptionShared=true&subscriptionDurable=true&durableSubscriptionName=bridge";
               from("jms:topic:" + topic + subscription).to("jms:queue:" + end);
            }
         });
         running.send(in, 0, COUNT);
         running.takesOnce(subscriber, COUNT);
         running.takesOnce(session.createConsumer(session.createQueue(end)), COUNT);
      }
   }

   private static void requestAndReply(Outside outside) throws Exception {
      String service = outside.fresh("service");
      String replies = outside.fresh("replies");
      try (Running running = new Running(outside)) {
         running.route(new RouteBuilder() {
            @Override
            public void configure() {
               from("jms:queue:" + service + "?concurrentConsumers=2").transform(body().append(" answered"));
               from("direct:temporary").to("jms:queue:" + service);
               from("direct:shared").to("jms:queue:" + service + "?replyTo=" + replies);
               from("direct:exclusive")
                  .to("jms:queue:" + service + "?replyToType=Exclusive&replyTo=" + replies + ".exclusive");
            }
         });
         var template = running.camel.createProducerTemplate();
         for (String way : new String[] {"temporary", "shared", "exclusive"}) {
            Set<String> expected = IntStream.range(0, 20)
               .mapToObj(number -> number + " answered").collect(Collectors.toSet());
            Set<Object> found = IntStream.range(0, 20).parallel()
               .mapToObj(number -> template.requestBody("direct:" + way, String.valueOf(number)))
               .collect(Collectors.toSet());
            same(expected, found);
         }
      }
   }

   /** A transacted route loses and doubles nothing when the broker is killed; its own sends need no answer twice. */
   private static void goesOnAfterAKill(Outside outside) throws Exception {
      String in = outside.fresh("in");
      String out = outside.fresh("out");
      try (Running running = new Running(outside)) {
         CountDownLatch third = new CountDownLatch(COUNT / 3);
         running.route(new RouteBuilder() {
            @Override
            public void configure() {
               errorHandler(noErrorHandler());
               from("transacted:queue:" + in).to("transacted:queue:" + out).process(exchange -> third.countDown());
            }
         });
         running.send(in, 0, COUNT);
         // A client whose new connection ends before the broker has described itself waits 30 s: not with a broken one.
         check(third.await(Outside.WAIT_MS, TimeUnit.MILLISECONDS), "the route does not run");
         outside.ask("kill");
         running.connect();
         running.send(in, COUNT, 2 * COUNT);
         // The acknowledgement of the source and the send to the target are one transaction: a commit that was not
         // answered has either happened, or the message is still at the source.
         running.takesOnce(running.session.createConsumer(running.session.createQueue(out)), 2 * COUNT);
      }
   }
}
