package interop;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.api.core.TransportConfiguration;
import org.apache.activemq.artemis.api.core.client.ClusterTopologyListener;
import org.apache.activemq.artemis.api.core.client.TopologyMember;
import org.apache.activemq.artemis.core.client.impl.TopologyMemberImpl;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * One client of a cluster, which tells what it learns of it until its standard input ends.
 *
 * <pre>
 * out: up NODE LIVE BACKUP   ports, or - where there is none
 * out: down NODE
 * out: connected
 * out: got TEXT          of a queue, if a second argument names one
 * </pre>
 */
public final class PairClient {
   private PairClient() {
   }

   public static void main(String[] arguments) throws Exception {
      PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      System.setOut(System.err); // libraries may print
      ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
      factory.getServerLocator().addClusterTopologyListener(new ClusterTopologyListener() {
         @Override
         public void nodeUP(TopologyMember member, boolean last) {
            TopologyMemberImpl known = (TopologyMemberImpl) member;
            String ports = port(known.getConnector().getA()) + " " + port(known.getConnector().getB());
            out.println("up " + member.getNodeId() + " " + ports);
         }

         @Override
         public void nodeDown(long eventId, String nodeId) {
            out.println("down " + nodeId);
         }
      });
      Connection connection = factory.createConnection();
      if (arguments.length > 1) {
         Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
         session.createConsumer(session.createQueue(arguments[1])).setMessageListener(message -> {
            try {
               out.println("got " + ((TextMessage) message).getText());
            } catch (JMSException error) {
               out.println("failed " + error);
            }
         });
      }
      connection.start();
      out.println("connected");
      while (System.in.read() >= 0) {
         // Nobody says anything.
      }
      System.exit(0);
   }

   private static String port(TransportConfiguration connector) {
      return connector == null ? "-" : String.valueOf(connector.getParams().get("port"));
   }
}
