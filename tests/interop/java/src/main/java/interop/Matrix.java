package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Runs one named case after the other against any broker, told by lines on standard input.
 *
 * <pre>
 * in:  run CASE URL        out: ok CASE MILLISECONDS | failed CASE TEXT (line breaks as \n)
 * in:  list                out: cases CASE CASE ...
 * out: ask WORD            a case wants something from outside (cut the connection); in: done
 * </pre>
 *
 * It knows nothing of how the broker was started.
 */
public final class Matrix {
   private static final int CASE_SECONDS_MAX = 40;

   /** One test. */
   interface Case {
      void run(Broker broker) throws Exception;
   }

   private static final Map<String, Case> CASES = new LinkedHashMap<>();

   static {
      MessageCases.addTo(CASES);
      SessionCases.addTo(CASES);
      SelectionCases.addTo(CASES);
      SubscriptionCases.addTo(CASES);
      QueueCases.addTo(CASES);
      LargeCases.addTo(CASES);
      RoutingCases.addTo(CASES);
      DuplicateCases.addTo(CASES);
      RefusalCases.addTo(CASES);
      ConnectionCases.addTo(CASES);
      ReconnectCases.addTo(CASES);
      XaCases.addTo(CASES);
      PairCases.addTo(CASES);
      PythonCases.addTo(CASES);
   }

   private Matrix() {
   }

   public static void main(String[] arguments) throws Exception {
      BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      System.setOut(System.err); // libraries may print; the protocol has this stream alone
      ExecutorService runner = Executors.newCachedThreadPool(task -> {
         Thread thread = new Thread(task);
         thread.setDaemon(true);
         return thread;
      });
      for (String line = in.readLine(); line != null; line = in.readLine()) {
         String[] words = line.split(" ");
         if (words[0].equals("list")) {
            out.println("cases " + String.join(" ", CASES.keySet()));
         } else {
            out.println(run(runner, words[1], new Broker(words[1], words[2], in, out)));
         }
      }
      System.exit(0);
   }

   private static String run(ExecutorService runner, String name, Broker broker) throws Exception {
      Case test = CASES.get(name);
      if (test == null) {
         return "failed " + name + " no such case";
      }
      long start = System.nanoTime();
      Future<?> done = runner.submit(() -> {
         try (broker) {
            test.run(broker);
         }
         return null;
      });
      try {
         done.get(CASE_SECONDS_MAX, TimeUnit.SECONDS);
         return "ok " + name + " " + (System.nanoTime() - start) / 1_000_000;
      } catch (TimeoutException late) {
         StringBuilder stacks = new StringBuilder("not finished after " + CASE_SECONDS_MAX + " s");
         Thread.getAllStackTraces().forEach((thread, frames) -> {
            for (StackTraceElement frame : frames) {
               if (frame.getClassName().startsWith("interop.")) {
                  stacks.append("\\n  ").append(thread.getName()).append(" at ").append(frame);
               }
            }
         });
         done.cancel(true);
         return "failed " + name + " " + stacks;
      } catch (java.util.concurrent.ExecutionException failure) {
         StringWriter text = new StringWriter();
         failure.getCause().printStackTrace(new PrintWriter(text));
         return "failed " + name + " " + text.toString().strip().replace("\n", "\\n");
      }
   }
}
