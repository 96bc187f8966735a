package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/logger"
	"github.com/nacos-group/nacos-sdk-go/v2/model"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"
	"go.uber.org/zap"

	"conclave/client"
	"conclave/testbed/bench"
	"conclave/testbed/load"
)

// nacosService is what a client has registered of a service. Its servers know one request
// of a connection for each service: that of several instances has all of them.
type nacosService struct {
	sending sync.Mutex // held during a request, which has what was put meanwhile

	mu        sync.Mutex // guards the rest
	instances map[string]vo.RegisterInstanceParam
	put, sent int // how often an instance was put, and how often until the last request
}

// addresses counts those that instances have had, of all connections.
var addresses atomic.Int64

// set puts an instance, and returns which time this was. With another value it has another
// address: r-nacos keeps the first metadata of an address.
func (s *nacosService) set(name, value string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put++
	at := addresses.Add(1)
	s.instances[name] = vo.RegisterInstanceParam{
		Ip: fmt.Sprintf("10.%d.%d.%d", at>>16&0xff, at>>8&0xff, at&0xff), Port: 80,
		Weight: 1, Enable: true, Healthy: true, Ephemeral: true, Metadata: map[string]string{"value": value},
	}
	return s.put
}

// unsent returns all instances and how often one was put, or none if a request since that
// time had them.
func (s *nacosService) unsent(since int) (all []vo.RegisterInstanceParam, put int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent >= since {
		return nil, s.put
	}
	return slices.Collect(maps.Values(s.instances)), s.put
}

// startNacos starts a client whose instances live as long as its connection.
func startNacos(cfg client.Config) (load.Client, error) {
	config := constant.ClientConfig{TimeoutMs: 10_000, NotLoadCacheAtStart: true, CacheDir: os.DevNull, LogDir: os.TempDir(), LogLevel: "error"}
	var servers []constant.ServerConfig
	for _, a := range cfg.Sessions {
		host, text, _ := net.SplitHostPort(a)
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%s: want HOST:PORT", a)
		}
		servers = append(servers, constant.ServerConfig{IpAddr: host, Port: port})
	}
	c, err := clients.NewNamingClient(vo.NacosClientParam{ClientConfig: &config, ServerConfigs: servers})
	if err != nil {
		return nil, err
	}
	logger.SetLogger(&logger.NacosLogger{Logger: zap.NewNop().Sugar()})
	var services sync.Map // *nacosService, by name
	return &connection{
		room: make(chan struct{}, 1000), // one request has all that wait
		write: func(_ context.Context, service, instance, value string, _ bool) error {
			found, _ := services.LoadOrStore(service, &nacosService{instances: map[string]vo.RegisterInstanceParam{}})
			s := found.(*nacosService)
			since := s.set(instance, value)
			s.sending.Lock()
			defer s.sending.Unlock()
			all, put := s.unsent(since)
			if len(all) == 0 {
				return nil
			}
			_, err := c.BatchRegisterInstance(vo.BatchRegisterInstanceParam{ServiceName: service, Instances: all})
			if err == nil {
				s.mu.Lock()
				s.sent = put
				s.mu.Unlock()
			}
			return err
		},
		watch: func(service string, changed func([]string)) error {
			return c.Subscribe(&vo.SubscribeParam{ServiceName: service, SubscribeCallback: func(all []model.Instance, _ error) {
				var values []string
				for _, i := range all {
					values = append(values, i.Metadata["value"])
				}
				changed(values)
			}})
		},
		end: func(context.Context) error {
			c.CloseClient()
			return nil
		},
	}, nil
}

// aboutNacos asks as r-nacos answers, whose version is not known.
func aboutNacos(ctx context.Context, r bench.Registry) (version, leader string, err error) {
	leaders, ids := map[int]bool{}, map[int]string{}
	for _, a := range r.Addresses {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a+"/nacos/v1/raft/metrics", nil)
		if err != nil {
			return "", "", err
		}
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		if err != nil {
			return "", "", err
		}
		var node struct {
			ID     int  `json:"id"`
			Leader *int `json:"current_leader"`
		}
		err = json.NewDecoder(answer.Body).Decode(&node)
		_ = answer.Body.Close()
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", a, err)
		}
		if ids[node.ID] = a; node.Leader == nil {
			return "", "", fmt.Errorf("%s knows no leader", a)
		}
		leaders[*node.Leader] = true
	}
	for id := range leaders {
		leader = ids[id]
	}
	if len(leaders) != 1 || leader == "" {
		return "", "", errors.New("the nodes know different leaders")
	}
	return "", leader, nil
}
