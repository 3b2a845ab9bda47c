package applications;

import static applications.Outside.check;
import static applications.Outside.same;

import applications.Shop.Delivery;
import applications.Shop.Desk;
import applications.Shop.Invoice;
import applications.Shop.Order;
import jakarta.jms.Message;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.support.converter.MessageConverter;
import org.springframework.transaction.support.TransactionTemplate;

/** A Spring Boot application with `spring-boot-starter-artemis`, which starts once and serves all cases. */
final class SpringCases {
   private static ConfigurableApplicationContext application;

   private SpringCases() {
   }

   static void addTo(Map<String, Applications.Case> cases) {
      cases.put("spring-converters", SpringCases::converters);
      cases.put("spring-concurrent-listeners", SpringCases::concurrentListeners);
      cases.put("spring-request-and-reply", SpringCases::requestAndReply);
      cases.put("spring-reply-to-another-queue", SpringCases::replyToAnotherQueue);
      cases.put("spring-rollback-and-redelivery", SpringCases::rollbackAndRedelivery);
      cases.put("spring-transaction-of-a-method", SpringCases::transactionOfAMethod);
      cases.put("spring-shared-durable-subscriptions", SpringCases::subscriptions);
      cases.put("spring-goes-on-after-a-kill", SpringCases::goesOnAfterAKill);
   }

   private static ConfigurableApplicationContext application(Outside outside) {
      if (application == null) {
         application = SpringApplication.run(
            Shop.class,
            "--spring.artemis.mode=native",
            "--spring.artemis.broker-url=" + outside.url,
            "--spring.jms.template.receive-timeout=" + Outside.WAIT_MS + "ms",
            "--spring.main.banner-mode=off",
            "--logging.level.root=ERROR");
      }
      return application;
   }

   private static JmsTemplate template(Outside outside) {
      return application(outside).getBean(JmsTemplate.class);
   }

   private static Desk desk() {
      return application.getBean(Desk.class);
   }

   private static Order order(int number) {
      return new Order(number, "tea \u00e4\u6f22", number + 0.5);
   }

   private static void send(JmsTemplate template, String queue, int from, int to) {
      IntStream.range(from, to).forEach(number -> template.convertAndSend(queue, order(number)));
   }

   private static <T> T next(BlockingQueue<T> queue) throws InterruptedException {
      T found = queue.poll(Outside.WAIT_MS, TimeUnit.MILLISECONDS);
      check(found != null, "nothing came to the listener");
      return found;
   }

   private static <T> List<T> next(BlockingQueue<T> queue, int count) throws InterruptedException {
      List<T> found = new ArrayList<>();
      while (found.size() < count) {
         found.add(next(queue));
      }
      return found;
   }

   private static Set<Integer> numbers(int to) {
      return IntStream.range(0, to).boxed().collect(Collectors.toCollection(TreeSet::new));
   }

   /** The next message of a queue, or null when there is none within a short time. */
   private static Message rest(JmsTemplate template, String queue) {
      long usual = template.getReceiveTimeout();
      template.setReceiveTimeout(Outside.NOTHING_MS);
      try {
         return template.receive(queue);
      } finally {
         template.setReceiveTimeout(usual);
      }
   }

   private static void converters(Outside outside) throws Exception {
      JmsTemplate template = template(outside);
      template.convertAndSend("shop.orders", order(1), message -> {
         message.setStringProperty("customer", "Ann");
         return message;
      });
      same(order(1), next(desk().orders));
      same("Ann", next(desk().customers));
      String queue = outside.fresh("q");
      template.convertAndSend(queue, order(2));
      Message raw = template.receive(queue);
      same(Order.class.getName(), raw.getStringProperty("_type"));
      check(((TextMessage) raw).getText().contains("\"number\":2"), "the text is not JSON");
      template.convertAndSend(queue, order(3));
      same(order(3), template.receiveAndConvert(queue));
      template.convertAndSend(queue, order(4), message -> {
         message.setIntProperty("weight", 7);
         return message;
      });
      same(order(4), template.receiveSelectedAndConvert(queue, "weight > 5 AND _type LIKE '%Order'"));
   }

   private static void concurrentListeners(Outside outside) throws Exception {
      int count = 400;
      send(template(outside), "shop.work", 0, count);
      List<Integer> worked = next(desk().worked, count);
      same(numbers(count), new TreeSet<>(worked));
      check(desk().threads.size() >= Shop.WORKERS, "threads: " + desk().threads);
      same(null, desk().worked.poll(Outside.NOTHING_MS, TimeUnit.MILLISECONDS));
   }

   private static void requestAndReply(Outside outside) throws Exception {
      JmsTemplate template = template(outside);
      MessageConverter converter = application.getBean(MessageConverter.class);
      ExecutorService threads = Executors.newFixedThreadPool(8);
      try {
         List<Future<Object>> replies = new ArrayList<>();
         for (int number = 0; number < 80; number++) {
            Order order = order(number);
            replies.add(threads.submit(() -> {
               Message reply = template.sendAndReceive("shop.requests", session -> converter.toMessage(order, session));
               check(reply != null, "no reply to " + order);
               return converter.fromMessage(reply);
            }));
         }
         for (int number = 0; number < replies.size(); number++) {
            Object reply = replies.get(number).get(Outside.WAIT_MS, TimeUnit.MILLISECONDS);
            same(new Invoice(number, order(number).price() * 2), reply);
         }
      } finally {
         threads.shutdownNow();
      }
   }

   private static void replyToAnotherQueue(Outside outside) throws Exception {
      JmsTemplate template = template(outside);
      template.convertAndSend("shop.forward", order(5));
      same(new Invoice(5, order(5).price() * 3), template.receiveAndConvert("shop.orders.forwarded"));
   }

   /** The listener's session is transacted: what it sends in it is undone, what it sends elsewhere is not. */
   private static void rollbackAndRedelivery(Outside outside) throws Exception {
      JmsTemplate template = template(outside);
      template.convertAndSend("shop.retries", order(6));
      List<Delivery> attempts = next(desk().attempts, 3);
      same(
         List.of(new Delivery(6, 1, false), new Delivery(6, 2, true), new Delivery(6, 3, true)),
         attempts);
      same("6 3", ((TextMessage) template.receive("shop.results")).getText());
      same(null, rest(template, "shop.results"));
      same(null, desk().attempts.poll(Outside.NOTHING_MS, TimeUnit.MILLISECONDS));
   }

   /** As `@Transactional` with a JmsTransactionManager: all templates of the thread use one session. */
   private static void transactionOfAMethod(Outside outside) throws Exception {
      JmsTemplate template = template(outside);
      TransactionTemplate transactions = application.getBean(TransactionTemplate.class);
      String source = outside.fresh("source");
      String target = outside.fresh("target");
      template.convertAndSend(source, order(7));
      try {
         transactions.executeWithoutResult(status -> {
            template.convertAndSend(target, template.receiveAndConvert(source));
            throw new IllegalStateException("on purpose");
         });
         check(false, "the exception was lost");
      } catch (IllegalStateException expected) {
         same("on purpose", expected.getMessage());
      }
      same(null, rest(template, target));
      transactions.executeWithoutResult(status -> template.convertAndSend(target, template.receiveAndConvert(source)));
      same(order(7), template.receiveAndConvert(target));
      same(null, rest(template, source));
   }

   private static void subscriptions(Outside outside) throws Exception {
      application(outside);
      JmsTemplate topics = new JmsTemplate(application.getBean(jakarta.jms.ConnectionFactory.class));
      topics.setMessageConverter(application.getBean(MessageConverter.class));
      topics.setPubSubDomain(true);
      int count = 50;
      send(topics, "shop.news", 0, count);
      same(numbers(count), new TreeSet<>(next(desk().first, count)));
      same(numbers(count), new TreeSet<>(next(desk().second, count)));
      same(null, desk().first.poll(Outside.NOTHING_MS, TimeUnit.MILLISECONDS));
      same(null, desk().second.poll());
   }

   /** What was sent before the kill, and what is sent after it, all comes; the template and the listeners reconnect. */
   private static void goesOnAfterAKill(Outside outside) throws Exception {
      JmsTemplate template = template(outside);
      String held = outside.fresh("held");
      send(template, held, 0, 100);
      send(template, "shop.safe", 0, 100);
      outside.ask("kill");
      long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Outside.RECOVERY_MS);
      for (int number = 100; number < 150; number++) {
         while (true) {
            try {
               template.convertAndSend("shop.safe", order(number));
               break;
            } catch (org.springframework.jms.JmsException lost) {
               if (lost instanceof org.springframework.jms.IllegalStateException) {
                  // The cache has a session of a connection that ended before its exception listener was there.
                  application.getBean(CachingConnectionFactory.class).resetConnection();
               }
               check(System.nanoTime() < deadline, "the template did not reconnect: " + lost);
            }
         }
      }
      Set<Integer> found = new TreeSet<>();
      while (found.size() < 150) {
         found.add(next(desk().safe)); // one whose commit was not answered comes twice
      }
      same(numbers(150), found);
      Set<Object> kept = new HashSet<>();
      while (kept.size() < 100) {
         try {
            Object order = template.receiveAndConvert(held);
            if (order != null) { // null when a listener that reconnects replaces the connection that all share
               kept.add(order);
            }
         } catch (org.springframework.jms.JmsException lost) {
            check(System.nanoTime() < deadline, "only " + kept.size() + " were kept: " + lost);
         }
         check(System.nanoTime() < deadline, "only " + kept.size() + " were kept");
      }
      same(IntStream.range(0, 100).mapToObj(SpringCases::order).collect(Collectors.toSet()), kept);
      same(null, rest(template, held));
      requestAndReply(outside);
   }
}
