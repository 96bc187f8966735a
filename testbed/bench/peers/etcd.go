package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"conclave/client"
	"conclave/testbed/bench"
	"conclave/testbed/load"
)

// lease is how long what a client has registered outlives it, in seconds.
const lease = 30

func dialEtcd(addresses []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: addresses, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// startEtcd starts a client whose registrations have a lease.
func startEtcd(cfg client.Config) (load.Client, error) {
	c, err := dialEtcd(cfg.Sessions)
	if err != nil {
		return nil, err
	}
	granted, err := c.Grant(c.Ctx(), lease)
	if err != nil {
		return nil, err
	}
	beats, err := c.KeepAlive(c.Ctx(), granted.ID)
	if err != nil {
		return nil, err
	}
	go func() {
		for range beats {
		}
	}()
	return &connection{
		room: newRoom(),
		write: func(ctx context.Context, service, instance, value string, _ bool) error {
			_, err := c.Put(ctx, service+"/"+instance, value, clientv3.WithLease(granted.ID))
			return err
		},
		watch: func(service string, changed func([]string)) error {
			all, err := c.Get(c.Ctx(), service+"/", clientv3.WithPrefix())
			if err != nil {
				return err
			}
			var values []string
			for _, kv := range all.Kvs {
				values = append(values, string(kv.Value))
			}
			changed(values)
			changes := c.Watch(c.Ctx(), service+"/", clientv3.WithPrefix(), clientv3.WithRev(all.Header.Revision+1))
			go func() {
				for some := range changes {
					var values []string
					for _, e := range some.Events {
						values = append(values, string(e.Kv.Value))
					}
					changed(values)
				}
			}()
			return nil
		},
		end: func(ctx context.Context) error {
			_, err := c.Revoke(ctx, granted.ID)
			return errors.Join(err, c.Close())
		},
	}, nil
}

func aboutEtcd(ctx context.Context, r bench.Registry) (version, leader string, err error) {
	c, err := dialEtcd(r.Addresses)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	for _, a := range r.Addresses {
		status, err := c.Status(ctx, a)
		if err != nil {
			return "", "", fmt.Errorf("%s: %w", a, err)
		}
		if version = status.Version; status.Leader == status.Header.MemberId {
			leader = a
		}
	}
	if leader == "" {
		return version, "", fmt.Errorf("none of %v leads", r.Addresses)
	}
	return version, leader, nil
}
