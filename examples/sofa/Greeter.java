import com.alipay.sofa.registry.client.api.registration.PublisherRegistration;
import com.alipay.sofa.registry.client.api.registration.SubscriberRegistration;
import com.alipay.sofa.registry.client.provider.DefaultRegistryClient;
import com.alipay.sofa.registry.client.provider.DefaultRegistryClientConfigBuilder;
import com.alipay.sofa.registry.core.model.ScopeEnum;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URL;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

// A provider, which answers and has registered its address; or a consumer, which calls the
// providers that the registry lists, one after the other, until it is ended.
public class Greeter {
    static final String SERVICE = "com.example.Greeter";

    public static void main(String[] args) throws Exception {
        String[] endpoint = System.getenv("SOFA").split(":");
        DefaultRegistryClient registry = new DefaultRegistryClient(DefaultRegistryClientConfigBuilder.start()
                .setRegistryEndpoint(endpoint[0]).setRegistryEndpointPort(Integer.parseInt(endpoint[1])).setAppName(args[0]).build());
        String token = System.getenv("TOKEN");
        registry.setAuthManager(register -> new HashMap<>(Map.of("!AccessKey", token)));
        registry.init();
        if (args[0].equals("provider")) {
            provide(registry);
        } else {
            consume(registry);
        }
    }

    static void provide(DefaultRegistryClient registry) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", call -> {
            call.sendResponseHeaders(204, -1);
            call.close();
        });
        server.start();
        registry.register(new PublisherRegistration(SERVICE), "127.0.0.1:" + server.getAddress().getPort());
    }

    static volatile List<String> providers = List.of();
    static int calls, failed, fewest = 2;

    static void consume(DefaultRegistryClient registry) throws Exception {
        SubscriberRegistration all = new SubscriberRegistration(SERVICE,
                (id, data) -> providers = data.getZoneData().values().stream().flatMap(List::stream).toList());
        all.setScopeEnum(ScopeEnum.global);
        registry.register(all);
        while (providers.size() < 2) {
            Thread.sleep(10);
        }
        System.out.println("calls begin");
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.printf(
                "%d calls, %d failed; the list never had fewer than %d of 2 providers%n", calls, failed, fewest)));
        for (; ; Thread.sleep(5)) {
            List<String> now = providers;
            fewest = Math.min(fewest, now.size());
            try {
                HttpURLConnection call = (HttpURLConnection) new URL("http://" + now.get(calls % now.size())).openConnection();
                call.setReadTimeout(2000);
                call.getResponseCode();
            } catch (IOException | RuntimeException e) { // no provider is listed, or that one does not answer
                failed++;
            }
            calls++;
        }
    }
}
