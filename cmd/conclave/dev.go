package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"conclave/internal/inprocess"
	"conclave/testbed"
	"conclave/testbed/local/supervisor"
	"conclave/wire/serve"
)

// devGC is the collector's target in a cluster in one process: less memory for more of its
// time.
const devGC = 30

func (a *app) devCommand() *cobra.Command {
	cfg := supervisor.DefaultConfig()
	var size, file, page, consul string
	var sofa bool
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole cluster in this process", Args: want(),
		Long: `Run a registry for development: the database, a meta, a data node and a session inside this
process, on loopback and without tokens, a page on which they can be watched, and a port
for clients of Consul at session-1. It is ready within a second; Ctrl-C ends it. The other commands find it in the folder --dir, as
they find the cluster of "conclave up".

The registrations are in memory. With --file the database keeps what operators have set
(switches, configuration, blacklist), the slot table and the terms.

"conclave kill NAME" ends a node inside the process without a word to the others, as kill -9
would, and "conclave start NAME" starts it again. What needs processes of their own, such as
"conclave kill NAME -STOP", is refused: use "conclave up".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.token != "" && !a.fromEnv {
				return usageError{errors.New("dev asks for no token: leave --token and --token-file out, or use `conclave up`")}
			}
			var err error
			if cfg.Metas, cfg.Datas, cfg.Sessions, err = parseSize(size); err != nil {
				return err
			}
			if cfg.Dir, err = filepath.Abs(a.dir); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			if h, err := supervisor.Open(cfg.Dir); err == nil && h.TLSDir() != "" && !h.OneProcess() {
				return fmt.Errorf("the cluster in %s uses TLS, and dev does not: choose another --dir", a.dir)
			}
			listen := func() (net.Listener, error) { return listenDev(cmd.Context(), page) }
			switch {
			case page == "":
				listen = nil
			case cmd.Flags().Changed("console"):
				ln, err := listenConsole(cmd.Context(), "--console", page)
				if err != nil {
					return err
				}
				defer ln.Close() // the console has closed it, unless it was never started
				listen = func() (net.Listener, error) { return ln, nil }
			}
			inside := inprocess.Config{Metas: cfg.Metas, Datas: cfg.Datas, Sessions: cfg.Sessions, File: file, Version: version}
			if inside.Consul, err = doorAddress("--consul-listen", consul, cmd.Flags().Changed("consul-listen")); err != nil {
				return err
			}
			return a.dev(cmd.Context(), cfg, inside, sofa, listen)
		},
	}
	f := cmd.Flags()
	f.StringVar(&size, "size", "1,1,1", "number of metas, data nodes and sessions (M,D,S)")
	f.StringVar(&file, "file", "", "file to keep the database in (default: only in memory)")
	f.StringVar(&page, "console", consoleAddress, "address of the page, another port if that one is taken; empty: no page")
	f.StringVar(&consul, "consul-listen", "127.0.0.1:8500", "address for clients of Consul, another port if that one is taken; empty: none")
	f.BoolVar(&sofa, "sofa", false, "serve clients of SOFARegistry, too (docs/sofa.md)")
	f.IntVar(&cfg.Ports, "ports", 0, "first port of the cluster; 9600 gives sessions 9603, metas 9615, data nodes 9622 (default: those that the folder had, or free ones)")
	return cmd
}

// parseSize returns the numbers of --size.
func parseSize(text string) (metas, datas, sessions int, err error) {
	_, err = fmt.Sscanf(text+"\n", "%d,%d,%d\n", &metas, &datas, &sessions)
	if err != nil || min(metas, datas, sessions) < 1 || max(metas, datas, sessions) > 99 {
		err = usageError{fmt.Errorf("--size %q: want the numbers of metas, data nodes and sessions, 1 to 99 each, as in 3,3,2", text)}
	}
	return metas, datas, sessions, err
}

// listenDev listens for the page at its default address, at another port if that is taken,
// maybe by a node of the cluster.
func listenDev(ctx context.Context, address string) (net.Listener, error) {
	ln, err := listenConsole(ctx, "--console", address)
	if err != nil {
		return listenConsole(ctx, "--console", "127.0.0.1:0")
	}
	return ln, nil
}

// doorAddress returns the address for clients of another kind: if it was not chosen, and is
// taken, one with another port.
func doorAddress(flag, address string, chosen bool) (string, error) {
	if address == "" {
		return "", nil
	}
	if err := serve.CheckListen(address, false, false); err != nil {
		return "", usageError{fmt.Errorf("%s: %w", flag, err)}
	}
	ln, err := net.Listen("tcp", address)
	if err != nil && !chosen {
		ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return ln.Addr().String(), ln.Close()
}

// sofaDoors returns the addresses of the sessions for clients of SOFARegistry: the first has
// its usual port, unless that is taken, or another server of the cluster will have it.
func sofaDoors(sessions int, taken map[string]string) (doors map[string]string, err error) {
	doors = map[string]string{}
	address := "127.0.0.1:9600"
	if slices.Contains(slices.Collect(maps.Values(taken)), address) {
		address = "127.0.0.1:0"
	}
	for _, name := range testbed.Numbered("session", sessions) {
		if doors[name], err = doorAddress("--sofa", address, false); err != nil {
			return nil, err
		}
		address = "127.0.0.1:0"
	}
	return doors, nil
}

// dev runs a cluster in this process until a signal or `down`, with sofa for clients of
// SOFARegistry, too. page returns the listener of its page once the nodes have their ports;
// it is nil if there is none.
func (a *app) dev(ctx context.Context, cfg supervisor.Config, inside inprocess.Config, sofa bool, page func() (net.Listener, error)) error {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(devGC))
	}
	var c *supervisor.Cluster
	nodes := sync.OnceValues(func() (*inprocess.Cluster, error) { // made by the first start, when the supervisor knows the addresses
		addresses := map[string]string{}
		rows, err := c.Handle().Rows()
		if err != nil {
			return nil, err
		}
		for _, p := range rows {
			addresses[p.Name] = p.HTTP + p.SQL
		}
		inside.Addresses = addresses
		if sofa {
			if inside.Sofa, err = sofaDoors(cfg.Sessions, addresses); err != nil {
				return nil, err
			}
		}
		return inprocess.New(inside)
	})
	cfg.Logger, cfg.Slots = a.logger("supervisor"), inprocess.Slots
	cfg.Inside = func(name string, log io.Writer) (supervisor.Server, error) {
		all, err := nodes()
		if err != nil {
			return nil, err
		}
		return all.Start(name, hclog.New(&hclog.LoggerOptions{Name: name, Level: hclog.Info, Output: log}))
	}
	cfg.Migrate = func(context.Context, string, func(time.Duration, error)) error { return nil } // its metas do it
	var err error
	if c, err = supervisor.New(cfg); err != nil {
		return err
	}
	defer func() {
		if all, err := nodes(); err == nil {
			all.Close()
		}
	}()
	var watched sync.WaitGroup
	defer watched.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	return a.superviseHere(ctx, c, cfg.Logger, func() error {
		debug.FreeOSMemory() // what only the start needed
		if err := a.showStarted(ctx, c.Handle()); err != nil {
			return err
		}
		if !a.asJSON {
			sessions, _ := c.Handle().Addresses("session")
			if inside.Consul != "" {
				fmt.Fprintf(a.stdout, "\nClients of Consul connect to %s.", inside.Consul)
			}
			if sofa {
				fmt.Fprintf(a.stdout, "\nClients of SOFARegistry ask %s for servers.", sessions[0])
			}
			fmt.Fprintf(a.stdout, "\nThe registry runs in this process; applications connect to %s, without a token. Try %s. Ctrl-C ends it.\n",
				strings.Join(sessions, ", "), a.hint("publish demo=10.0.0.1:8080 --hold"))
		}
		if page != nil {
			source, err := a.liveSource(false)
			if err != nil {
				return err
			}
			ln, err := page()
			if err != nil {
				return err
			}
			watched.Go(func() { // the last to print
				if err := a.serveConsole(ctx, ln, nil, source); err != nil {
					a.warn(failure{Code: "failed", Message: "the page has ended: " + err.Error()})
				}
			})
		}
		return nil
	})
}
