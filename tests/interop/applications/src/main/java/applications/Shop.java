package applications;

import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Session;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.jms.DefaultJmsListenerContainerFactoryConfigurer;
import org.springframework.context.annotation.Bean;
import org.springframework.jms.annotation.JmsListener;
import org.springframework.jms.config.DefaultJmsListenerContainerFactory;
import org.springframework.jms.connection.JmsTransactionManager;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.support.converter.MappingJackson2MessageConverter;
import org.springframework.jms.support.converter.MessageConverter;
import org.springframework.jms.support.converter.MessageType;
import org.springframework.messaging.handler.annotation.Header;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.stereotype.Component;
import org.springframework.transaction.support.TransactionTemplate;

/** An application as Spring Boot makes it of a few annotations: orders come in, and invoices go out. */
@SpringBootApplication
public class Shop {
   /** What a message carries, as JSON. */
   public record Order(int number, String item, double price) {
   }

   /** The answer to an order. */
   public record Invoice(int order, double total) {
   }

   /** A delivery as a listener got it. */
   record Delivery(int number, int count, boolean redelivered) {
   }

   /** How many consumers the listener of `shop.work` has. */
   static final int WORKERS = 4;

   @Bean
   MessageConverter converter() {
      MappingJackson2MessageConverter converter = new MappingJackson2MessageConverter();
      converter.setTargetType(MessageType.TEXT);
      converter.setTypeIdPropertyName("_type");
      return converter;
   }

   @Bean
   JmsTransactionManager jmsTransactions(ConnectionFactory connections) {
      return new JmsTransactionManager(connections);
   }

   @Bean
   TransactionTemplate transactions(JmsTransactionManager manager) {
      return new TransactionTemplate(manager);
   }

   /** Durable subscriptions that several consumers share, beside the factory for queues that Spring Boot makes. */
   @Bean
   DefaultJmsListenerContainerFactory subscriptions(
         DefaultJmsListenerContainerFactoryConfigurer configurer, ConnectionFactory connections) {
      DefaultJmsListenerContainerFactory factory = new DefaultJmsListenerContainerFactory();
      configurer.configure(factory, connections);
      factory.setPubSubDomain(true);
      factory.setSubscriptionShared(true);
      factory.setSubscriptionDurable(true);
      return factory;
   }

   /** The listeners, and what came to them. */
   @Component
   public static class Desk {
      final BlockingQueue<Order> orders = new LinkedBlockingQueue<>();
      final BlockingQueue<String> customers = new LinkedBlockingQueue<>();
      final BlockingQueue<Integer> worked = new LinkedBlockingQueue<>();
      final BlockingQueue<Integer> first = new LinkedBlockingQueue<>();
      final BlockingQueue<Integer> second = new LinkedBlockingQueue<>();
      final BlockingQueue<Delivery> attempts = new LinkedBlockingQueue<>();
      final BlockingQueue<Integer> safe = new LinkedBlockingQueue<>();
      final Set<String> threads = ConcurrentHashMap.newKeySet();
      final CyclicBarrier together = new CyclicBarrier(WORKERS);
      private final JmsTemplate template;

      Desk(JmsTemplate template) {
         this.template = template;
      }

      @JmsListener(destination = "shop.orders")
      void order(Order order, @Header("customer") String customer) {
         orders.add(order);
         customers.add(customer);
      }

      /** The first orders wait for each other, which only consumers at the same time can. */
      @JmsListener(destination = "shop.work", concurrency = WORKERS + "-" + WORKERS)
      void work(Order order) throws Exception {
         if (order.number() < WORKERS) {
            together.await(Outside.WAIT_MS, TimeUnit.MILLISECONDS);
         }
         threads.add(Thread.currentThread().getName());
         worked.add(order.number());
      }

      @JmsListener(destination = "shop.requests", concurrency = "2-4")
      Invoice invoice(Order order) {
         return new Invoice(order.number(), order.price() * 2);
      }

      @JmsListener(destination = "shop.forward")
      @SendTo("shop.orders.forwarded")
      Invoice forward(Order order) {
         return new Invoice(order.number(), order.price() * 3);
      }

      /** What an attempt that fails has sent must not be seen. */
      @JmsListener(destination = "shop.retries")
      void retry(Order order, Message message, Session session) throws JMSException {
         int count = message.getIntProperty("JMSXDeliveryCount");
         attempts.add(new Delivery(order.number(), count, message.getJMSRedelivered()));
         template.convertAndSend("shop.results.unsafe", new Invoice(order.number(), count));
         session.createProducer(session.createQueue("shop.results"))
            .send(session.createTextMessage(order.number() + " " + count));
         if (count < 3) {
            throw new IllegalStateException("attempt " + count + " fails on purpose");
         }
      }

      @JmsListener(destination = "shop.safe", concurrency = "2-2")
      void keep(Order order) {
         safe.add(order.number());
      }

      @JmsListener(destination = "shop.news", containerFactory = "subscriptions", subscription = "first",
         concurrency = "2-2")
      void readFirst(Order order) {
         first.add(order.number());
      }

      @JmsListener(destination = "shop.news", containerFactory = "subscriptions", subscription = "second")
      void readSecond(Order order) {
         second.add(order.number());
      }
   }
}
