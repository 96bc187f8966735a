"""Registers a service and watches it with py-consul, as main.go does with Consul's client."""

import os, sys, threading, time

import consul


def connect(address):
    host, port = address.split(":")
    return consul.Consul(host=host, port=int(port))


def register(addresses):
    while True:
        for address in addresses:
            try:
                agent = connect(address).agent
                agent.service.register("svc", service_id="py-1", address="10.0.0.2", port=2, tags=["py"], check=consul.Check.ttl("10s"))
                while True:
                    agent.check.ttl_pass("service:py-1", "fine")
                    time.sleep(0.5)
            except Exception as e:
                print("register:", e, file=sys.stderr)
                time.sleep(0.1)


addresses = os.environ["CONSUL"].split(",")
threading.Thread(target=register, args=(addresses,), daemon=True).start()
client, index = connect(addresses[-1]), None
while True:
    now, nodes = client.health.service("svc", index=index, wait="2s", passing=True)
    if index is not None and int(now) < int(index):
        sys.exit(f"the index fell from {index} to {now}")
    index = now
    print(" ".join(sorted(f"{n['Service']['Address']}:{n['Service']['Port']}" for n in nodes)), flush=True)
