package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.artemis.api.core.TransportConfiguration;
import org.apache.activemq.artemis.api.core.client.ClusterTopologyListener;
import org.apache.activemq.artemis.api.core.client.TopologyMember;
import org.apache.activemq.artemis.core.client.impl.TopologyMemberImpl;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * One client of a primary and its backup, told by lines on standard input, and telling what it learns of the cluster.
 *
 * <pre>
 * in:  send TEXT           out: sent TEXT
 * in:  receive             out: received TEXT | received nothing
 * out: up NODE LIVE BACKUP   ports, or - where there is none
 * out: down NODE
 * </pre>
 */
public final class PairClient {
   private static final long WAIT = 20_000;

   private PairClient() {
   }

   public static void main(String[] arguments) throws Exception {
      BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
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
      connection.start();
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      Queue queue = session.createQueue("pair");
      MessageProducer producer = session.createProducer(queue);
      out.println("connected");
      for (String line = in.readLine(); line != null; line = in.readLine()) {
         if (line.equals("receive")) {
            try (MessageConsumer consumer = session.createConsumer(queue)) {
               TextMessage message = (TextMessage) consumer.receive(WAIT);
               out.println("received " + (message == null ? "nothing" : message.getText()));
            }
         } else {
            String text = line.substring("send ".length());
            producer.send(session.createTextMessage(text));
            out.println("sent " + text);
         }
      }
      System.exit(0);
   }

   private static String port(TransportConfiguration connector) {
      return connector == null ? "-" : String.valueOf(connector.getParams().get("port"));
   }
}
