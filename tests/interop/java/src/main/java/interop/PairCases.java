package interop;

import static interop.Broker.check;
import static interop.Broker.fails;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;
import static interop.SessionCases.send;

import interop.XaCases.Branch;
import interop.XaCases.Worker;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TransactionRolledBackException;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.apache.activemq.artemis.api.core.client.ClusterTopologyListener;
import org.apache.activemq.artemis.api.core.client.FailoverEventType;
import org.apache.activemq.artemis.api.core.client.TopologyMember;
import org.apache.activemq.artemis.core.client.impl.TopologyMemberImpl;
import org.apache.activemq.artemis.jms.client.ActiveMQConnection;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * A primary and its backup: the URL names the primary, which tells where the backup is. "ask fail" ends the primary,
 * "ask back" brings it back; what clients have open goes on at the other one each time.
 */
final class PairCases {
   // Below the 30 s that a client waits for an answer: one that is let in and not answered has not followed.
   private static final long MOVED = 20_000;
   private static final List<String> MOVES = List.of("fail", "back");
   // What was acknowledged must not come again, so the program waits until it is.
   private static final String[] FOLLOWING =
      {"ha=true", "reconnectAttempts=-1", "retryInterval=100", "blockOnAcknowledge=true"};

   private PairCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("pair-plain", PairCases::plain);
      cases.put("pair-transacted", PairCases::transacted);
      cases.put("pair-xa", PairCases::xa);
   }

   /** A connection that follows the live broker, and has been told of its backup. */
   private static final class Follower implements AutoCloseable {
      final ActiveMQConnection connection;
      private final Broker broker;
      private final Semaphore completed = new Semaphore(0);

      Follower(Broker broker) throws Exception {
         this.broker = broker;
         ActiveMQConnectionFactory factory = broker.factory(FOLLOWING);
         CountDownLatch pair = new CountDownLatch(1);
         factory.getServerLocator().addClusterTopologyListener(new ClusterTopologyListener() {
            @Override
            public void nodeUP(TopologyMember member, boolean last) {
               if (((TopologyMemberImpl) member).getConnector().getB() != null) {
                  pair.countDown();
               }
            }

            @Override
            public void nodeDown(long eventId, String nodeId) {
               // It comes back under the same id.
            }
         });
         connection = (ActiveMQConnection) factory.createXAConnection();
         connection.setFailoverListener(event -> {
            if (event == FailoverEventType.FAILOVER_COMPLETED) {
               completed.release();
            }
         });
         connection.start();
         check(pair.await(Broker.WAIT, TimeUnit.MILLISECONDS), "nobody told of the backup");
      }

      Worker worker() throws Exception {
         XASession session = ((XAConnection) connection).createXASession();
         return new Worker((XAConnection) connection, session, session.getXAResource());
      }

      /** Returns when the connection is at the other broker. */
      void moves(String move) throws Exception {
         broker.ask(move);
         check(completed.tryAcquire(MOVED, TimeUnit.MILLISECONDS), "the client did not follow: " + move);
      }

      @Override
      public void close() throws Exception {
         connection.close();
      }
   }

   private static void plain(Broker broker) throws Exception {
      try (Follower follower = new Follower(broker)) {
         Session session = follower.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
         Session byHand = follower.connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
         Queue queue = session.createQueue(broker.fresh("q"));
         Queue other = session.createQueue(broker.fresh("held"));
         Topic topic = session.createTopic(broker.fresh("t"));
         TemporaryQueue temporary = session.createTemporaryQueue();
         MessageConsumer consumer = session.createConsumer(queue);
         MessageConsumer replies = session.createConsumer(temporary);
         MessageConsumer subscriber = session.createConsumer(topic);
         MessageConsumer held = byHand.createConsumer(other);
         for (String move : MOVES) {
            send(session, queue, "taken", "kept");
            same("taken", nextText(consumer));
            send(session, other, "held");
            same("held", nextText(held));
            follower.moves(move);
            // Delivered to the client already, and not to the program: it comes from the new broker.
            same("kept", nextText(consumer));
            send(session, queue, "after");
            same("after", nextText(consumer));
            send(session, temporary, "reply");
            same("reply", nextText(replies));
            try (MessageProducer news = session.createProducer(topic)) {
               news.send(session.createTextMessage("news"));
            }
            same("news", nextText(subscriber));
            byHand.recover();
            Message again = Broker.next(held);
            same("held", ((TextMessage) again).getText());
            again.acknowledge();
            nothing(consumer);
            nothing(held);
         }
      }
   }

   private static void transacted(Broker broker) throws Exception {
      try (Follower follower = new Follower(broker)) {
         Session working = follower.connection.createSession(true, Session.SESSION_TRANSACTED);
         Session idle = follower.connection.createSession(true, Session.SESSION_TRANSACTED);
         Queue queue = working.createQueue(broker.fresh("q"));
         MessageConsumer consumer = working.createConsumer(queue);
         for (String move : MOVES) {
            send(working, queue, "taken");
            working.commit();
            same("taken", nextText(consumer));
            send(working, queue, "lost");
            follower.moves(move);
            fails(TransactionRolledBackException.class, working::commit);
            idle.commit();
            same("taken", nextText(consumer));
            send(working, queue, "kept");
            working.commit();
            same("kept", nextText(consumer));
            nothing(consumer);
            working.commit();
         }
      }
   }

   /** Branches that were prepared are there; of another one all is lost, and it cannot be prepared. */
   private static void xa(Broker broker) throws Exception {
      try (Follower follower = new Follower(broker)) {
         Session session = follower.connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
         Queue queue = session.createQueue(broker.fresh("q"));
         Queue source = session.createQueue(broker.fresh("source"));
         for (String move : MOVES) {
            // New sessions each time: one that has moved with a prepared branch fails the next one that is ended in it.
            Worker first = follower.worker();
            Worker second = follower.worker();
            MessageConsumer taker = first.session().createConsumer(source);
            send(session, source, "taken", "returned");
            Branch taken = first.takes(taker, "taken");
            same(XAResource.XA_OK, first.resource().prepare(taken));
            Branch returned = first.takes(taker, "returned");
            same(XAResource.XA_OK, first.resource().prepare(returned));
            Branch prepared = first.sends(queue, "prepared");
            same(XAResource.XA_OK, first.resource().prepare(prepared));
            Branch active = Branch.fresh();
            second.resource().start(active, XAResource.TMNOFLAGS);
            send(second.session(), queue, "active");
            follower.moves(move);
            var found = first.resource().recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
            for (Branch branch : List.of(taken, returned, prepared)) {
               check(branch.among(found), "a prepared branch is not in doubt");
            }
            check(!active.among(found), "a branch that was not prepared is");
            first.resource().commit(taken, false);
            first.resource().commit(prepared, false);
            first.resource().rollback(returned);
            XaCases.code(XAException.XAER_RMFAIL, () -> second.resource().end(active, XAResource.TMSUCCESS));
            fails(XAException.class, () -> second.resource().prepare(active));
            XaCases.forget(second, active);
            Branch next = second.sends(queue, "next");
            same(XAResource.XA_OK, second.resource().prepare(next));
            second.resource().commit(next, false);
            try (MessageConsumer consumer = session.createConsumer(queue)) {
               same("prepared", nextText(consumer));
               same("next", nextText(consumer));
               nothing(consumer);
            }
            first.session().close();
            try (MessageConsumer consumer = session.createConsumer(source)) {
               same("returned", nextText(consumer));
               nothing(consumer);
            }
            second.session().close();
         }
      }
   }
}
