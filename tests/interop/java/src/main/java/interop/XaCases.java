package interop;

import static interop.Broker.check;
import static interop.Broker.fails;
import static interop.Broker.next;
import static interop.Broker.nextText;
import static interop.Broker.nothing;
import static interop.Broker.same;
import static interop.SessionCases.send;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import java.util.UUID;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/** Distributed transactions, as a transaction manager drives them. "ask kill" kills the broker and starts it again. */
final class XaCases {
   private static final int NONE = XAResource.TMNOFLAGS;
   private static final int DONE = XAResource.TMSUCCESS;

   private XaCases() {
   }

   static void addTo(Map<String, Matrix.Case> cases) {
      cases.put("xa-two-phases", XaCases::twoPhases);
      cases.put("xa-one-phase", XaCases::onePhase);
      cases.put("xa-rollback", XaCases::rollback);
      cases.put("xa-join", XaCases::join);
      cases.put("xa-suspend-and-resume", XaCases::suspendAndResume);
      cases.put("xa-error-codes", XaCases::errorCodes);
      cases.put("xa-start-of-a-prepared-branch", XaCases::startOfAPreparedBranch);
      cases.put("xa-time-out", XaCases::timeOut);
      cases.put("xa-recover", XaCases::recover);
      cases.put("xa-recover-after-kill", XaCases::recoverAfterKill);
      cases.put("xa-killed-before-prepare", XaCases::killedBeforePrepare);
      cases.put("cut-xa-session", XaCases::cutSession);
      cases.put("cut-xa-prepared", XaCases::cutPrepared);
   }

   record Branch(int getFormatId, byte[] getGlobalTransactionId, byte[] getBranchQualifier) implements Xid {
      static Branch fresh() {
         UUID id = UUID.randomUUID();
         byte[] global = ByteBuffer.allocate(16).putLong(id.getMostSignificantBits())
            .putLong(id.getLeastSignificantBits()).array();
         return new Branch(4711, global, new byte[] {1, -1, 0});
      }

      @Override
      public int getFormatId() {
         return getFormatId;
      }

      @Override
      public byte[] getGlobalTransactionId() {
         return getGlobalTransactionId;
      }

      @Override
      public byte[] getBranchQualifier() {
         return getBranchQualifier;
      }

      boolean among(Xid[] xids) {
         return Arrays.stream(xids).anyMatch(xid -> xid.getFormatId() == getFormatId
            && Arrays.equals(xid.getGlobalTransactionId(), getGlobalTransactionId)
            && Arrays.equals(xid.getBranchQualifier(), getBranchQualifier));
      }
   }

   /** A session with its resource, on a connection of its own. */
   record Worker(XAConnection connection, XASession session, XAResource resource) implements AutoCloseable {
      static Worker of(Broker broker, String... parameters) throws Exception {
         XAConnection connection = broker.factory(parameters).createXAConnection();
         connection.start();
         XASession session = connection.createXASession();
         return new Worker(connection, session, session.getXAResource());
      }

      Branch sends(Queue queue, String... texts) throws Exception {
         Branch branch = Branch.fresh();
         resource.start(branch, NONE);
         send(session, queue, texts);
         resource.end(branch, DONE);
         return branch;
      }

      Branch takes(MessageConsumer consumer, String... texts) throws Exception {
         Branch branch = Branch.fresh();
         resource.start(branch, NONE);
         for (String text : texts) {
            same(text, nextText(consumer));
         }
         resource.end(branch, DONE);
         return branch;
      }

      @Override
      public void close() throws Exception {
         connection.close();
      }
   }

   static void code(int expected, Broker.Attempt attempt) throws Exception {
      same(expected, fails(XAException.class, attempt).errorCode);
   }

   private static void twoPhases(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker worker = Worker.of(broker)) {
         Queue queue = reader.createQueue(broker.fresh("q"));
         Branch sent = worker.sends(queue, "a", "b");
         MessageConsumer watching = reader.createConsumer(queue);
         same(XAResource.XA_OK, worker.resource.prepare(sent));
         nothing(watching);
         worker.resource.commit(sent, false);
         same("a", nextText(watching));
         same("b", nextText(watching));
         watching.close();

         send(reader, queue, "c", "d");
         MessageConsumer consumer = worker.session.createConsumer(queue);
         Branch taken = worker.takes(consumer, "c", "d");
         same(XAResource.XA_OK, worker.resource.prepare(taken));
         consumer.close();
         MessageConsumer later = reader.createConsumer(queue);
         nothing(later);
         worker.resource.commit(taken, false);
         nothing(later);
      }
   }

   private static void onePhase(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker worker = Worker.of(broker)) {
         Queue queue = reader.createQueue(broker.fresh("q"));
         Branch sent = worker.sends(queue, "a");
         worker.resource.commit(sent, true);
         MessageConsumer consumer = worker.session.createConsumer(queue);
         Branch taken = worker.takes(consumer, "a");
         worker.resource.commit(taken, true);
         consumer.close();
         nothing(reader.createConsumer(queue));
      }
   }

   private static void rollback(Broker broker) throws Exception {
      Session plain = broker.session();
      try (Worker worker = Worker.of(broker)) {
         Queue queue = plain.createQueue(broker.fresh("q"));
         worker.resource.rollback(worker.sends(queue, "never"));
         Branch prepared = worker.sends(queue, "never either");
         worker.resource.prepare(prepared);
         worker.resource.rollback(prepared);
         send(plain, queue, "a", "b");
         MessageConsumer consumer = worker.session.createConsumer(queue);
         Branch taken = worker.takes(consumer, "a");
         worker.resource.rollback(taken);
         Branch again = Branch.fresh();
         worker.resource.start(again, NONE);
         Message first = next(consumer);
         same("a", ((TextMessage) first).getText());
         check(first.getJMSRedelivered(), "not flagged as redelivered");
         same(2, first.getIntProperty("JMSXDeliveryCount"));
         same("b", nextText(consumer));
         worker.resource.end(again, DONE);
         worker.resource.prepare(again);
         worker.resource.commit(again, false);
      }
   }

   private static void join(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker one = Worker.of(broker); Worker other = Worker.of(broker)) {
         Queue queue = reader.createQueue(broker.fresh("q"));
         Branch branch = one.sends(queue, "a");
         other.resource.start(branch, XAResource.TMJOIN);
         send(other.session, queue, "b");
         other.resource.end(branch, DONE);
         other.resource.commit(branch, true);
         MessageConsumer consumer = reader.createConsumer(queue);
         same("a", nextText(consumer));
         same("b", nextText(consumer));
      }
   }

   private static void suspendAndResume(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker worker = Worker.of(broker)) {
         Queue queue = reader.createQueue(broker.fresh("q"));
         Branch outer = Branch.fresh();
         worker.resource.start(outer, NONE);
         send(worker.session, queue, "a");
         worker.resource.end(outer, XAResource.TMSUSPEND);
         Branch inner = worker.sends(queue, "inner");
         worker.resource.rollback(inner);
         worker.resource.start(outer, XAResource.TMRESUME);
         send(worker.session, queue, "b");
         worker.resource.end(outer, DONE);
         worker.resource.prepare(outer);
         worker.resource.commit(outer, false);
         MessageConsumer consumer = reader.createConsumer(queue);
         same("a", nextText(consumer));
         same("b", nextText(consumer));
         nothing(consumer);
      }
   }

   private static void errorCodes(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker worker = Worker.of(broker)) {
         XAResource resource = worker.resource;
         Branch unknown = Branch.fresh();
         code(XAException.XAER_NOTA, () -> resource.prepare(unknown));
         code(XAException.XAER_NOTA, () -> resource.commit(unknown, true));
         code(XAException.XAER_NOTA, () -> resource.commit(unknown, false));
         code(XAException.XAER_NOTA, () -> resource.rollback(unknown));
         code(XAException.XAER_NOTA, () -> resource.end(unknown, DONE));
         code(XAException.XAER_NOTA, () -> resource.start(unknown, XAResource.TMJOIN));
         code(XAException.XAER_NOTA, () -> resource.start(unknown, XAResource.TMRESUME));
         code(XAException.XAER_NOTA, () -> resource.forget(unknown));

         Queue queue = reader.createQueue(broker.fresh("q"));
         Branch working = Branch.fresh();
         resource.start(working, NONE);
         send(worker.session, queue, "a");
         code(XAException.XAER_PROTO, () -> resource.prepare(working));
         code(XAException.XAER_PROTO, () -> resource.commit(working, true));
         code(XAException.XAER_PROTO, () -> resource.rollback(working));
         resource.end(working, XAResource.TMSUSPEND);
         code(XAException.XAER_PROTO, () -> resource.commit(working, true));
         resource.start(working, XAResource.TMRESUME);
         resource.end(working, XAResource.TMFAIL);
         same(XAResource.XA_OK, resource.prepare(working));
         same(XAResource.XA_OK, resource.prepare(working));
         Branch other = worker.sends(queue, "b");
         // Not prepared: what is wrong with it comes as an error of the session, which the client takes for a try later.
         code(XAException.XA_RETRY, () -> resource.commit(other, false));
         resource.commit(working, false);
         same("a", nextText(reader.createConsumer(queue)));
      }
   }

   /** The session may not do it, and the branch is what it was. */
   private static void startOfAPreparedBranch(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker worker = Worker.of(broker)) {
         Queue queue = reader.createQueue(broker.fresh("q"));
         Branch prepared = worker.sends(queue, "a");
         worker.resource.prepare(prepared);
         code(XAException.XAER_DUPID, () -> worker.resource.start(prepared, NONE));
         worker.resource.rollback(worker.sends(queue, "never"));
         worker.resource.commit(prepared, false);
         same("a", nextText(reader.createConsumer(queue)));
      }
   }

   private static void timeOut(Broker broker) throws Exception {
      Session reader = broker.session();
      try (Worker worker = Worker.of(broker)) {
         Queue queue = reader.createQueue(broker.fresh("q"));
         same(300, worker.resource.getTransactionTimeout());
         check(worker.resource.setTransactionTimeout(1), "the time-out was not taken");
         Branch late = worker.sends(queue, "late");
         Branch prepared = worker.sends(queue, "prepared");
         worker.resource.prepare(prepared);
         Thread.sleep(3_500);
         code(XAException.XAER_NOTA, () -> worker.resource.prepare(late));
         worker.resource.commit(prepared, false);
         MessageConsumer consumer = reader.createConsumer(queue);
         same("prepared", nextText(consumer));
         nothing(consumer);
      }
   }

   private static void recover(Broker broker) throws Exception {
      Session reader = broker.session();
      Queue queue = reader.createQueue(broker.fresh("q"));
      Branch branch;
      try (Worker worker = Worker.of(broker)) {
         branch = worker.sends(queue, "a");
         check(!branch.among(worker.resource.recover(XAResource.TMSTARTRSCAN)), "it is not prepared yet");
         worker.resource.prepare(branch);
      }
      try (Worker worker = Worker.of(broker)) {
         check(branch.among(worker.resource.recover(XAResource.TMSTARTRSCAN)), "it is not in doubt");
         same(0, worker.resource.recover(XAResource.TMENDRSCAN).length);
         worker.resource.commit(branch, false);
         check(!branch.among(worker.resource.recover(XAResource.TMSTARTRSCAN)), "it is still in doubt");
      }
      same("a", nextText(reader.createConsumer(queue)));
   }

   private static void recoverAfterKill(Broker broker) throws Exception {
      String name = broker.fresh("q");
      String other = broker.fresh("q");
      Branch sent;
      Branch taken;
      Branch rolledBack;
      try (Worker worker = Worker.of(broker); javax.jms.Connection plain = broker.factory().createConnection()) {
         Session session = plain.createSession(false, Session.AUTO_ACKNOWLEDGE);
         Queue queue = session.createQueue(other);
         send(session, queue, "first", "second");
         sent = worker.sends(session.createQueue(name), "a", "b");
         same(XAResource.XA_OK, worker.resource.prepare(sent));
         MessageConsumer consumer = worker.session.createConsumer(queue);
         taken = worker.takes(consumer, "first");
         same(XAResource.XA_OK, worker.resource.prepare(taken));
         rolledBack = worker.takes(consumer, "second");
         same(XAResource.XA_OK, worker.resource.prepare(rolledBack));
         broker.ask("kill");
      } catch (javax.jms.JMSException lost) {
         throw new AssertionError("closing a lost connection failed", lost);
      }
      try (Worker worker = Worker.of(broker)) {
         Session reader = broker.session();
         MessageConsumer ones = reader.createConsumer(reader.createQueue(name));
         MessageConsumer others = reader.createConsumer(reader.createQueue(other));
         nothing(ones);
         nothing(others);
         Xid[] found = worker.resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
         check(sent.among(found) && taken.among(found) && rolledBack.among(found), "a branch is not in doubt");
         worker.resource.commit(sent, false);
         worker.resource.commit(taken, false);
         worker.resource.rollback(rolledBack);
         same("a", nextText(ones));
         same("b", nextText(ones));
         same("second", nextText(others));
         nothing(others);
      }
   }

   /** What was not prepared is gone, and nobody is told otherwise. */
   private static void killedBeforePrepare(Broker broker) throws Exception {
      String name = broker.fresh("q");
      try (Worker worker = Worker.of(broker, "reconnectAttempts=-1", "retryInterval=50")) {
         Queue queue = worker.session.createQueue(name);
         Branch ended = worker.sends(queue, "never");
         broker.ask("kill");
         check(fails(XAException.class, () -> worker.resource.prepare(ended)).errorCode < 0, "it can be prepared");
         forget(worker, ended);
      }
      // The session above remembers the loss until another branch has failed in it.
      try (Worker worker = Worker.of(broker)) {
         Branch next = worker.sends(worker.session.createQueue(name), "later");
         worker.resource.prepare(next);
         worker.resource.commit(next, false);
      }
      Session reader = broker.session();
      MessageConsumer consumer = reader.createConsumer(reader.createQueue(name));
      same("later", nextText(consumer));
      nothing(consumer);
   }

   /** What a transaction manager does with a branch that failed; that it is not known is as good. */
   static void forget(Worker worker, Branch branch) {
      try {
         worker.resource.rollback(branch);
      } catch (XAException gone) {
         check(gone.errorCode == XAException.XAER_NOTA || gone.errorCode == XAException.XAER_RMFAIL,
            "the rollback failed: " + gone.errorCode);
      }
   }

   /** A session that loses its connection in a branch loses the branch, and cannot prepare what is left of it. */
   private static void cutSession(Broker broker) throws Exception {
      try (Worker worker = Worker.of(broker, "reconnectAttempts=-1", "retryInterval=50")) {
         Queue queue = worker.session.createQueue(broker.fresh("q"));
         Branch branch = Branch.fresh();
         worker.resource.start(branch, NONE);
         send(worker.session, queue, "never");
         broker.ask("cut");
         try {
            worker.resource.end(branch, DONE);
         } catch (XAException known) {
            same(XAException.XAER_RMFAIL, known.errorCode);
         }
         fails(XAException.class, () -> worker.resource.prepare(branch));
         forget(worker, branch);
         try (Worker other = Worker.of(broker)) {
            Branch next = other.sends(queue, "later");
            other.resource.commit(next, true);
            MessageConsumer consumer = other.session.createConsumer(queue);
            other.resource.commit(other.takes(consumer, "later"), true);
            nothing(consumer);
         }
      }
   }

   private static void cutPrepared(Broker broker) throws Exception {
      try (Worker worker = Worker.of(broker, "reconnectAttempts=-1", "retryInterval=50")) {
         Queue queue = worker.session.createQueue(broker.fresh("q"));
         Branch branch = worker.sends(queue, "a");
         same(XAResource.XA_OK, worker.resource.prepare(branch));
         broker.ask("cut");
         try {
            worker.resource.commit(branch, false);
         } catch (XAException failure) {
            same(XAException.XA_RETRY, failure.errorCode);
            if (branch.among(worker.resource.recover(XAResource.TMSTARTRSCAN))) {
               worker.resource.commit(branch, false);
            }
         }
         Session reader = broker.session();
         same("a", nextText(reader.createConsumer(queue)));
      }
   }
}
