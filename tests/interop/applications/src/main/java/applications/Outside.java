package applications;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.util.Objects;
import java.util.UUID;

/** What a case has from outside: the broker's URL, separate names, and a way to kill the broker. */
final class Outside {
   static final long WAIT_MS = 20_000;
   /** After a kill: a client whose connection ends before the broker has described itself waits 30 s for it. */
   static final long RECOVERY_MS = 40_000;
   static final long NOTHING_MS = 200;

   final String url;
   private final String name;
   private final BufferedReader in;
   private final PrintStream out;

   Outside(String name, String url, BufferedReader in, PrintStream out) {
      this.name = name;
      this.url = url;
      this.in = in;
      this.out = out;
   }

   /** Return the name of a queue or topic that no other case has. */
   String fresh(String what) {
      return name + "." + what + "." + UUID.randomUUID().toString().substring(0, 8);
   }

   /** Request something, and return when it is done. */
   void ask(String word) throws IOException {
      out.println("ask " + word);
      same("done", in.readLine());
   }

   static void check(boolean holds, String otherwise) {
      if (!holds) {
         throw new AssertionError(otherwise);
      }
   }

   static void same(Object expected, Object found) {
      check(Objects.equals(expected, found), "expected " + expected + ", found " + found);
   }
}
