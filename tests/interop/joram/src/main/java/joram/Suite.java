package joram;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;
import org.objectweb.jtests.jms.conform.connection.ConnectionTest;
import org.objectweb.jtests.jms.conform.connection.TopicConnectionTest;
import org.objectweb.jtests.jms.conform.message.MessageBodyTest;
import org.objectweb.jtests.jms.conform.message.MessageDefaultTest;
import org.objectweb.jtests.jms.conform.message.MessageTypeTest;
import org.objectweb.jtests.jms.conform.message.headers.MessageHeaderTest;
import org.objectweb.jtests.jms.conform.message.properties.JMSXPropertyTest;
import org.objectweb.jtests.jms.conform.message.properties.MessagePropertyConversionTest;
import org.objectweb.jtests.jms.conform.message.properties.MessagePropertyTest;
import org.objectweb.jtests.jms.conform.queue.QueueBrowserTest;
import org.objectweb.jtests.jms.conform.queue.TemporaryQueueTest;
import org.objectweb.jtests.jms.conform.selector.SelectorSyntaxTest;
import org.objectweb.jtests.jms.conform.selector.SelectorTest;
import org.objectweb.jtests.jms.conform.session.QueueSessionTest;
import org.objectweb.jtests.jms.conform.session.SessionTest;
import org.objectweb.jtests.jms.conform.session.TopicSessionTest;
import org.objectweb.jtests.jms.conform.session.UnifiedSessionTest;
import org.objectweb.jtests.jms.conform.topic.TemporaryTopicTest;

/**
 * Runs all tests of Joram's suite against the broker at a URL, its one argument.
 *
 * <pre>
 * out: ok CLASS METHOD | failed CLASS METHOD TEXT (line breaks as \n), one line for each test
 * </pre>
 */
public final class Suite {
   private static final Class<?>[] CLASSES = {
      ConnectionTest.class, TopicConnectionTest.class, MessageBodyTest.class, MessageDefaultTest.class,
      MessageTypeTest.class, MessageHeaderTest.class, JMSXPropertyTest.class, MessagePropertyConversionTest.class,
      MessagePropertyTest.class, QueueBrowserTest.class, TemporaryQueueTest.class, SelectorSyntaxTest.class,
      SelectorTest.class, QueueSessionTest.class, SessionTest.class, TopicSessionTest.class, UnifiedSessionTest.class,
      TemporaryTopicTest.class,
   };

   private Suite() {
   }

   public static void main(String[] arguments) {
      System.setProperty(ManagementAdmin.URL_PROPERTY, arguments[0]);
      PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      System.setOut(System.err); // the suite prints errors of its own; the results have this stream alone
      JUnitCore runner = new JUnitCore();
      runner.addListener(new Results(out));
      runner.run(CLASSES);
      System.exit(0);
   }

   private static final class Results extends RunListener {
      private final PrintStream out;
      private String failure;

      Results(PrintStream out) {
         this.out = out;
      }

      @Override
      public void testStarted(Description test) {
         failure = null;
      }

      @Override
      public void testFailure(Failure failed) {
         failure = failed.getTrace().strip().replace("\n", "\\n");
      }

      @Override
      public void testFinished(Description test) {
         String name = test.getTestClass().getSimpleName() + " " + test.getMethodName();
         out.println(failure == null ? "ok " + name : "failed " + name + " " + failure);
      }
   }
}
