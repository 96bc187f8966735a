package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"conclave/client"
	"conclave/testbed/bench"
	"conclave/testbed/load"
)

// startZooKeeper starts a client whose instances are ephemeral nodes. A watch of ZooKeeper
// fires once and has no value: the client reads the node again, which watches it again.
func startZooKeeper(cfg client.Config) (load.Client, error) {
	var reads sync.Map // func() error, by path
	fired := func(e zk.Event) {
		read, watched := reads.Load(e.Path)
		if watched && (e.Type == zk.EventNodeDataChanged || e.Type == zk.EventNodeChildrenChanged) {
			go func() { _ = read.(func() error)() }() // a session that has ended has no watches
		}
	}
	c, _, err := zk.Connect(cfg.Sessions, lease*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithEventCallback(fired))
	if err != nil {
		return nil, err
	}
	anyone := zk.WorldACL(zk.PermAll)
	return &connection{
		room: newRoom(),
		write: func(_ context.Context, service, instance, value string, change bool) error {
			path := "/" + service + "/" + instance
			if change {
				_, err := c.Set(path, []byte(value), -1)
				return err
			}
			_, err := c.Create(path, []byte(value), zk.FlagEphemeral, anyone)
			if !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			if _, err := c.CreateContainer("/"+service, nil, zk.FlagContainer, anyone); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			_, err = c.Create(path, []byte(value), zk.FlagEphemeral, anyone)
			return err
		},
		watch: func(service string, changed func([]string)) error {
			if _, err := c.Sync("/" + service); err != nil { // the server may be behind
				return err
			}
			var one sync.Mutex
			names := func() error {
				names, _, _, err := c.ChildrenW("/" + service)
				if err != nil {
					return err
				}
				var all errgroup.Group
				all.SetLimit(cap(newRoom()))
				for _, name := range names {
					path := "/" + service + "/" + name
					read := func() error {
						value, _, _, err := c.GetW(path)
						if err == nil {
							one.Lock()
							defer one.Unlock()
							changed([]string{string(value)})
						}
						return err
					}
					if _, known := reads.LoadOrStore(path, read); !known {
						all.Go(read)
					}
				}
				return all.Wait()
			}
			reads.Store("/"+service, names)
			return names()
		},
		end: func(context.Context) error {
			c.Close()
			return nil
		},
	}, nil
}

// status matches the answer to srvr, which every ZooKeeper gives unless it is forbidden.
var status = regexp.MustCompile(`(?s)version: ([^-,]+).*Mode: (\w+)`)

func aboutZooKeeper(ctx context.Context, r bench.Registry) (version, leader string, err error) {
	for _, a := range r.Addresses {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a)
		if err != nil {
			return "", "", err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("srvr"))
		answer, _ := io.ReadAll(conn)
		found := status.FindSubmatch(answer)
		if found == nil {
			return "", "", fmt.Errorf("%s: answers %q to srvr", a, answer)
		}
		if version = string(found[1]); string(found[2]) != "follower" {
			leader = a
		}
	}
	return version, leader, nil
}
