import com.alipay.sofa.registry.client.api.registration.PublisherRegistration;
import com.alipay.sofa.registry.client.api.registration.SubscriberRegistration;
import com.alipay.sofa.registry.client.provider.DefaultRegistryClient;
import com.alipay.sofa.registry.client.provider.DefaultRegistryClientConfigBuilder;
import com.alipay.sofa.registry.core.model.ScopeEnum;
import java.util.stream.Collectors;

// Registers a value and watches all of them with the client of SOFARegistry for Java.
public class Watch {
    public static void main(String[] args) throws Exception {
        String[] endpoint = System.getenv("SOFA").split(":");
        DefaultRegistryClient client = new DefaultRegistryClient(DefaultRegistryClientConfigBuilder.start()
                .setRegistryEndpoint(endpoint[0]).setRegistryEndpointPort(Integer.parseInt(endpoint[1])).setAppName("java").build());
        client.init();
        SubscriberRegistration all = new SubscriberRegistration("svc", (id, data) -> System.out.println(
                data.getZoneData().values().stream().flatMap(values -> values.stream()).sorted().collect(Collectors.joining(" "))));
        all.setScopeEnum(ScopeEnum.global);
        client.register(all);
        client.register(new PublisherRegistration("svc"), "10.0.0.1:1");
        Thread.sleep(Long.MAX_VALUE);
    }
}
