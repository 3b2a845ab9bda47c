package joram;

import java.util.Hashtable;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.Queue;
import javax.jms.QueueConnection;
import javax.jms.QueueRequestor;
import javax.jms.QueueSession;
import javax.jms.Session;
import javax.naming.Context;
import javax.naming.InitialContext;
import javax.naming.NamingException;
import org.apache.activemq.artemis.api.jms.ActiveMQJMSClient;
import org.apache.activemq.artemis.api.jms.management.JMSManagementHelper;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;
import org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory;
import org.objectweb.jtests.jms.admin.Admin;

/**
 * Creates and deletes the suite's destinations by management messages alone. Connection factories and names are the
 * client's: a context is made of them.
 */
public final class ManagementAdmin implements Admin {
   static final String URL_PROPERTY = "joram.url";

   private final String url = System.getProperty(URL_PROPERTY);
   private final Hashtable<String, Object> names = new Hashtable<>();
   private QueueConnection connection;
   private QueueRequestor requestor;
   private QueueSession session;

   @Override
   public String getName() {
      return "management messages";
   }

   @Override
   public void start() throws Exception {
      connection = new ActiveMQConnectionFactory(url).createQueueConnection();
      session = connection.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue management = ActiveMQJMSClient.createQueue("activemq.management");
      requestor = new QueueRequestor(session, management);
      connection.start();
   }

   @Override
   public void stop() throws Exception {
      connection.close();
   }

   @Override
   public void startServer() {
   }

   @Override
   public void stopServer() {
   }

   @Override
   public Context createContext() throws NamingException {
      Hashtable<String, Object> environment = new Hashtable<>(names);
      environment.put(Context.INITIAL_CONTEXT_FACTORY, ActiveMQInitialContextFactory.class.getName());
      return new InitialContext(environment);
   }

   @Override
   public void createQueue(String name) {
      manage("createQueue", name, "ANYCAST", name, null, true, -1, false, true);
      names.put("queue." + name, name);
   }

   @Override
   public void deleteQueue(String name) {
      names.remove("queue." + name);
      manage("destroyQueue", name, true);
   }

   @Override
   public void createTopic(String name) {
      manage("createAddress", name, "MULTICAST");
      names.put("topic." + name, name);
   }

   @Override
   public void deleteTopic(String name) {
      names.remove("topic." + name);
      manage("deleteAddress", name, true);
   }

   @Override
   public void createConnectionFactory(String name) {
      names.put("connectionFactory." + name, url);
   }

   @Override
   public void deleteConnectionFactory(String name) {
      names.remove("connectionFactory." + name);
   }

   @Override
   public void createQueueConnectionFactory(String name) {
      createConnectionFactory(name);
   }

   @Override
   public void deleteQueueConnectionFactory(String name) {
      deleteConnectionFactory(name);
   }

   @Override
   public void createTopicConnectionFactory(String name) {
      createConnectionFactory(name);
   }

   @Override
   public void deleteTopicConnectionFactory(String name) {
      deleteConnectionFactory(name);
   }

   private void manage(String operation, Object... arguments) {
      try {
         Message request = session.createMessage();
         JMSManagementHelper.putOperationInvocation(request, "broker", operation, arguments);
         Message reply = requestor.request(request);
         if (!JMSManagementHelper.hasOperationSucceeded(reply)) {
            throw new IllegalStateException(operation + ": " + JMSManagementHelper.getResult(reply));
         }
      } catch (JMSException error) {
         throw new IllegalStateException(operation, error);
      } catch (RuntimeException error) {
         throw error;
      } catch (Exception error) {
         throw new IllegalStateException(operation, error);
      }
   }
}
