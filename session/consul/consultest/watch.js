// Registers a service and watches it with the package consul, as program_test.go does with
// Consul's client for Go.
const Consul = require("consul");

const addresses = process.env.CONSUL.split(",");
const connect = (address) => new Consul({ host: address.split(":")[0], port: Number(address.split(":")[1]) });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function register() {
  for (;;) {
    for (const address of addresses) {
      try {
        const agent = connect(address).agent;
        await agent.service.register({ id: "js-1", name: "svc", address: "10.0.0.4", port: 4, tags: ["js"], check: { ttl: "10s" } });
        for (;;) {
          await agent.check.pass("service:js-1");
          await sleep(500);
        }
      } catch (err) {
        console.error("register:", err.message);
        await sleep(100);
      }
    }
  }
}

register();
const client = connect(addresses[addresses.length - 1]);
const watch = client.watch({ method: client.health.service, options: { service: "svc", passing: true, wait: "2s" } });
watch.on("change", (all) => console.log(all.map((x) => `${x.Service.Address}:${x.Service.Port}`).sort().join(" ")));
watch.on("error", (err) => console.error("watch:", err.message));
