// Package consultest registers a service and watches it with Consul's own client for Go, as
// its users do. It is a module of its own, because that client has many dependencies. The
// test of package session starts it with CONSUL, the addresses at which it registers and
// watches: those after the first are used once that does not answer, as behind one name.
//
// It prints each list of the service that it is sent. An index that falls ends it. With
// PROGRAM it only prints what others find that use that client: "prometheus" is the code of
// its consul_sd_configs, "grpc" a resolver for gRPC, "kit" the discovery of Go kit.
package consultest

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/kit/sd"
	kit "github.com/go-kit/kit/sd/consul"
	"github.com/go-kit/log"
	"github.com/hashicorp/consul/api"
	_ "github.com/mbobakov/grpc-consul-resolver"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/consul"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"google.golang.org/grpc/resolver"
)

func TestProgram(t *testing.T) {
	addresses := strings.Split(os.Getenv("CONSUL"), ",")
	if addresses[0] == "" {
		t.Skip("SKIPPED: TestConsul_ProgramsOfOthers of package session starts it")
	}
	address := addresses[len(addresses)-1]
	switch os.Getenv("PROGRAM") {
	case "prometheus":
		discover(address)
	case "grpc":
		resolve(address)
	case "kit":
		instances(address)
	}
	go register(addresses)
	client, index := connect(address), uint64(0)
	for {
		entries, meta, err := client.Health().Service("svc", "", true, &api.QueryOptions{WaitIndex: index, WaitTime: 2 * time.Second})
		if err != nil {
			fmt.Fprintln(os.Stderr, "watch:", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if meta.LastIndex < index {
			fmt.Fprintf(os.Stderr, "the index fell from %d to %d\n", index, meta.LastIndex)
			os.Exit(1)
		}
		index = meta.LastIndex
		var found []string
		for _, e := range entries {
			found = append(found, fmt.Sprintf("%s:%d", e.Service.Address, e.Service.Port))
		}
		show(found)
	}
}

func show(found []string) {
	slices.Sort(found)
	fmt.Println(strings.Join(found, " "))
}

// discover prints the targets that Prometheus discovers.
func discover(address string) {
	config, registry := consul.DefaultSDConfig, prometheus.NewRegistry()
	config.Server, config.RefreshInterval = address, model.Duration(time.Second)
	metrics := config.NewDiscovererMetrics(registry, discovery.NewRefreshMetrics(registry))
	if err := metrics.Register(); err != nil {
		fail(err)
	}
	d, err := config.NewDiscoverer(discovery.DiscovererOptions{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)), Metrics: metrics})
	if err != nil {
		fail(err)
	}
	groups := make(chan []*targetgroup.Group)
	go d.Run(context.Background(), groups)
	for all := range groups {
		for _, group := range all {
			if group.Source != "svc" {
				continue
			}
			var found []string
			for _, target := range group.Targets {
				found = append(found, string(target["__address__"]))
			}
			show(found)
		}
	}
}

// resolve prints the addresses that gRPC is given.
func resolve(address string) {
	target := resolver.Target{URL: url.URL{Scheme: "consul", Host: address, Path: "/svc", RawQuery: "healthy=true&wait=2s"}}
	if _, err := resolver.Get("consul").Build(target, connection{}, resolver.BuildOptions{}); err != nil {
		fail(err)
	}
	select {}
}

// connection is what a resolver has of a client of gRPC.
type connection struct{ resolver.ClientConn }

func (connection) UpdateState(s resolver.State) error {
	var found []string
	for _, a := range s.Addresses {
		found = append(found, a.Addr)
	}
	show(found)
	return nil
}

// instances prints the instances that Go kit discovers.
func instances(address string) {
	kit.NewRegistrar(kit.NewClient(connect(address)), &api.AgentServiceRegistration{
		ID: "kit-1", Name: "svc", Address: "10.0.0.3", Port: 3, Check: &api.AgentServiceCheck{TTL: "10s"},
	}, log.NewLogfmtLogger(os.Stderr)).Register()
	go func() { // Go kit leaves that to its user
		for ; ; time.Sleep(time.Second) {
			if err := connect(address).Agent().UpdateTTL("service:kit-1", "fine", api.HealthPassing); err != nil {
				fail(err)
			}
		}
	}()
	events := make(chan sd.Event, 1) // Register sends the first
	kit.NewInstancer(kit.NewClient(connect(address)), log.NewLogfmtLogger(os.Stderr), "svc", nil, true).Register(events)
	for e := range events {
		if e.Err != nil {
			fmt.Fprintln(os.Stderr, "kit:", e.Err)
			continue
		}
		show(slices.Clone(e.Instances))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func connect(address string) *api.Client {
	client, err := api.NewClient(&api.Config{Address: address})
	if err != nil {
		fail(err)
	}
	return client
}

// register keeps the service registered, at the address that answers.
func register(addresses []string) {
	for {
		for _, address := range addresses {
			agent := connect(address).Agent()
			var err error
			for updates := 0; err == nil; updates++ {
				if updates%4 == 0 { // some programs register again all the time
					err = agent.ServiceRegister(&api.AgentServiceRegistration{
						ID: "go-1", Name: "svc", Address: "10.0.0.1", Port: 1, Tags: []string{"go"}, Meta: map[string]string{"by": "consul/api"},
						Check: &api.AgentServiceCheck{TTL: "10s"},
					})
				}
				if err == nil {
					err = agent.UpdateTTL("service:go-1", "fine", api.HealthPassing)
				}
				time.Sleep(500 * time.Millisecond)
			}
			fmt.Fprintln(os.Stderr, "register:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}
