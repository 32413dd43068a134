// What the walks in Java share: steps that print a line of JSON each, and expectations.
import java.util.Objects;

final class Steps {
    interface Step {
        void run() throws Exception;
    }

    private Steps() {}

    /** Runs a step and prints its name, and what was wrong; empty: nothing. */
    static void step(String name, Step step) {
        String wrong = "";
        try {
            step.run();
        } catch (Throwable error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            wrong = cause.toString();
        }
        System.out.println("[" + quoted(name) + ", " + quoted(wrong) + "]");
        System.out.flush();
    }

    static void expect(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new IllegalStateException(found + ", where " + wanted + " is wanted");
        }
    }

    static void holds(boolean holds, Object found) {
        if (!holds) throw new IllegalStateException("answered " + found);
    }

    /** Fails when the call is not refused. */
    static void refused(Step call) {
        try {
            call.run();
        } catch (Exception error) {
            return;
        }
        throw new IllegalStateException("it was not refused");
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        String cut = text.length() > 300 ? text.substring(0, 300) : text;
        for (char each : cut.toCharArray()) {
            if (each == '"' || each == '\\') out.append('\\').append(each);
            else if (each < ' ') out.append(' ');
            else out.append(each);
        }
        return out.append('"').toString();
    }
}
