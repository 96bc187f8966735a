// Registers a service and watches it with Spring Cloud Consul, as program_test.go does with
// Consul's client for Go, behind one address that leads to the first session that answers.

import java.io.PrintStream;
import java.util.Map;
import java.util.stream.Collectors;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.cloud.client.discovery.DiscoveryClient;
import org.springframework.cloud.consul.serviceregistry.ConsulAutoRegistration;
import org.springframework.cloud.consul.serviceregistry.ConsulServiceRegistry;

@EnableAutoConfiguration
public class Watch {
  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // for the log
    String[] behind = System.getenv("BEHIND").split(":");
    var spring = new SpringApplicationBuilder(Watch.class).web(WebApplicationType.NONE).run(
        "--spring.main.banner-mode=off", "--spring.application.name=svc",
        "--spring.cloud.consul.host=" + behind[0], "--spring.cloud.consul.port=" + behind[1],
        "--spring.cloud.consul.discovery.hostname=10.0.0.6", "--spring.cloud.consul.discovery.port=6",
        "--spring.cloud.consul.discovery.query-passing=true",
        "--spring.cloud.consul.discovery.heartbeat.enabled=true", "--spring.cloud.consul.discovery.heartbeat.ttl=10s",
        "--spring.cloud.consul.discovery.heartbeat.reregister-service-on-failure=true");
    // A program that serves HTTP with Spring is registered when its port opens.
    spring.getBean(ConsulServiceRegistry.class).register(spring.getBean(ConsulAutoRegistration.class));
    for (;;) {
      try {
        out.println(spring.getBean(DiscoveryClient.class).getInstances("svc").stream()
            .map(x -> x.getHost() + ":" + x.getPort()).sorted().collect(Collectors.joining(" ")));
      } catch (Exception e) {
        System.err.println("watch: " + e);
      }
      Thread.sleep(200);
    }
  }
}
