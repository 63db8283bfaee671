import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import org.jetbrains.kotlin.cli.common.ExitCode;
import org.jetbrains.kotlin.cli.jvm.K2JVMCompiler;

/**
 * Builds the client, its sources jar, its tests and the examples, unless the sources are those of the last build:
 * java -cp node_modules/kotlin-compiler/lib/kotlin-compiler.jar scripts/Build.java [OUT], in client_kotlin.
 */
class Build {
    static final Path HOME = Path.of("node_modules/kotlin-compiler").toAbsolutePath();
    static final List<String> INPUTS =
        List.of("src", "test", "scripts", "package-lock.json", "../LICENSE", "../examples/kotlin_desktop", "../examples/kotlin_android");

    public static void main(String[] arguments) throws Exception {
        Path out = Path.of(arguments.length > 0 ? arguments[0] : "../build/kotlin");
        Path mark = out.resolve("digest");
        String digest = digest();
        if (Files.exists(mark) && Files.readString(mark).equals(digest)) return;
        long begun = System.nanoTime();
        Files.createDirectories(out);
        Files.deleteIfExists(mark);
        Path client = out.resolve("classes");
        // Against the API of Java 8, and for apps with an older compiler: it could not read the metadata of a newer one.
        compile("rappor-telemetry-client", client, List.of("-Xjdk-release=1.8", "-language-version", "2.0",
            "-api-version", "2.0", "-Xsuppress-version-warnings", "-Xexplicit-api=strict", "-Werror",
            "-Xno-source-debug-extension", "-Xlambdas=indy"), "src");
        jar(out.resolve("rappor-telemetry-client.jar"), client);
        jar(out.resolve("rappor-telemetry-client-sources.jar"), Path.of("src"));
        compile("rappor-telemetry-tests", out.resolve("tests"), List.of("-Xfriend-paths=" + client, "-cp", client.toString()),
            "test", "../examples/kotlin_desktop", "../examples/kotlin_android");
        Files.writeString(mark, digest);
        System.out.printf("client_kotlin: built in %.0f s%n", (System.nanoTime() - begun) / 1e9);
    }

    static void compile(String module, Path out, List<String> more, String... sources) throws IOException {
        delete(out);
        List<String> words = new ArrayList<>(List.of("-kotlin-home", HOME.toString(), "-no-reflect", "-jvm-target", "1.8",
            "-module-name", module, "-d", out.toString()));
        words.addAll(more);
        words.addAll(List.of(sources));
        ExitCode code = new K2JVMCompiler().exec(System.err, words.toArray(String[]::new));
        if (code != ExitCode.OK) System.exit(1);
    }

    /** Entries are sorted and have one time, so that the same sources make the same bytes. */
    static void jar(Path jar, Path folder) throws IOException {
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Automatic-Module-Name", "rappor.telemetry");
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar))) {
            out.setLevel(9);
            put(out, "META-INF/MANIFEST.MF");
            manifest.write(out);
            put(out, "META-INF/LICENSE");
            Files.copy(Path.of("../LICENSE"), out);
            for (Path file : filesOf(folder)) {
                put(out, folder.relativize(file).toString().replace('\\', '/'));
                Files.copy(file, out);
            }
        }
    }

    static void put(JarOutputStream out, String name) throws IOException {
        ZipEntry entry = new JarEntry(name);
        entry.setTimeLocal(java.time.LocalDateTime.of(2000, 1, 1, 0, 0));
        out.putNextEntry(entry);
    }

    static String digest() throws Exception {
        MessageDigest sum = MessageDigest.getInstance("SHA-256");
        for (String input : INPUTS) {
            for (Path file : filesOf(Path.of(input))) {
                sum.update(file.toString().getBytes());
                sum.update(Files.readAllBytes(file));
            }
        }
        return HexFormat.of().formatHex(sum.digest());
    }

    static List<Path> filesOf(Path path) throws IOException {
        try (Stream<Path> files = Files.walk(path)) {
            return files.filter(Files::isRegularFile).sorted().toList();
        }
    }

    static void delete(Path path) throws IOException {
        if (!Files.exists(path)) return;
        try (Stream<Path> files = Files.walk(path)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) Files.delete(file);
        }
    }
}
