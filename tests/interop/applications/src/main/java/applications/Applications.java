package applications;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Runs one named case after the other, by lines on standard input and output: the protocol of the JMS matrix.
 *
 * <pre>
 * in:  run CASE URL        out: ok CASE MILLISECONDS | failed CASE TEXT (line breaks as \n)
 * out: ask WORD            a case requests something from outside, as the end of the broker; in: done
 * </pre>
 */
public final class Applications {
   /** One test. */
   interface Case {
      void run(Outside outside) throws Exception;
   }

   private static final Map<String, Case> CASES = new LinkedHashMap<>();

   static {
      SpringCases.addTo(CASES);
      CamelCases.addTo(CASES);
      PooledCases.addTo(CASES);
   }

   private Applications() {
   }

   public static void main(String[] arguments) throws Exception {
      BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
      System.setOut(System.err); // libraries may print; the protocol has this stream alone
      for (String line = in.readLine(); line != null; line = in.readLine()) {
         String[] words = line.split(" ");
         out.println(run(words[1], new Outside(words[1], words[2], in, out)));
      }
      System.exit(0);
   }

   private static String run(String name, Outside outside) {
      long start = System.nanoTime();
      try {
         CASES.get(name).run(outside);
         return "ok " + name + " " + (System.nanoTime() - start) / 1_000_000;
      } catch (Throwable failure) {
         StringWriter text = new StringWriter();
         failure.printStackTrace(new PrintWriter(text));
         return "failed " + name + " " + text.toString().strip().replace("\n", "\\n");
      }
   }
}
