import com.alipay.sofa.registry.client.api.Publisher;
import com.alipay.sofa.registry.client.api.SubscriberDataObserver;
import com.alipay.sofa.registry.client.api.registration.PublisherRegistration;
import com.alipay.sofa.registry.client.api.registration.SubscriberRegistration;
import com.alipay.sofa.registry.client.provider.DefaultRegistryClient;
import com.alipay.sofa.registry.client.provider.DefaultRegistryClientConfigBuilder;
import com.alipay.sofa.registry.core.model.ScopeEnum;
import java.util.stream.Collectors;

// Registers a value and watches all of them with the client of SOFARegistry for Java. It
// changes the value once it has seen another registration, and then that it was withdrawn.
public class Watch {
    static DefaultRegistryClient client;
    static boolean seen;

    static void watch(String dataId, SubscriberDataObserver observer) {
        SubscriberRegistration all = new SubscriberRegistration(dataId, observer);
        all.setScopeEnum(ScopeEnum.global);
        client.register(all);
    }

    public static void main(String[] args) throws Exception {
        String[] endpoint = System.getenv("SOFA").split(":");
        client = new DefaultRegistryClient(DefaultRegistryClientConfigBuilder.start()
                .setRegistryEndpoint(endpoint[0]).setRegistryEndpointPort(Integer.parseInt(endpoint[1])).setAppName("java").build());
        client.init();
        watch("svc", (id, data) -> System.out.println(
                data.getZoneData().values().stream().flatMap(values -> values.stream()).sorted().collect(Collectors.joining(" "))));
        Publisher value = client.register(new PublisherRegistration("svc"), "10.0.0.1:0");
        Publisher another = client.register(new PublisherRegistration("another-of-java"), "x");
        watch("another-of-java", (id, data) -> {
            if (data.getZoneData().values().stream().anyMatch(values -> !values.isEmpty())) {
                seen = true;
                another.unregister();
            } else if (seen) {
                seen = false;
                value.republish("10.0.0.1:1");
            }
        });
        Thread.sleep(Long.MAX_VALUE);
    }
}
