package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"conclave/client"
	"conclave/client/conclavegrpc"
)

const name = "com.example.Health"

// servers is how many there are.
const servers = 3

// serviceConfig uses all servers in turn. A check may be repeated, so one whose server
// died before it answered goes to another.
const serviceConfig = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [{
		"name": [{"service": "grpc.health.v1.Health"}],
		"waitForReady": true,
		"retryPolicy": {
			"maxAttempts": 5, "initialBackoff": "0.01s", "maxBackoff": "0.2s", "backoffMultiplier": 2,
			"retryableStatusCodes": ["UNAVAILABLE"]
		}
	}]
}`

func main() {
	sessions := flag.String("sessions", "127.0.0.1:9603", "addresses of sessions")
	tokenFile := flag.String("token-file", "", "the token of the application")
	duration := flag.Duration("for", 20*time.Second, "how long it calls")
	serving := len(os.Args) > 1 && os.Args[1] == "serve"
	if serving {
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	config := client.Config{Sessions: strings.Split(*sessions, ","), Name: "grpc-example"}
	if *tokenFile != "" {
		config.TokenFrom = client.TokenFile(*tokenFile)
	}
	c, err := client.New(config)
	if err == nil {
		c.Start()
		if serving {
			err = serve(ctx, c)
		} else {
			err = call(ctx, c, *duration)
		}
		closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err = errors.Join(err, c.Close(closing))
		cancel()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// serve answers until ctx ends. It first withdraws its address, so that no new call
// comes, and then finishes those that are running.
func serve(ctx context.Context, c *client.Client) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	published, err := c.Publish(ctx, name, []string{ln.Addr().String()})
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-failed:
			return err
		}
		stopping, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err = published.Withdraw(); err == nil {
			err = published.Stored(stopping)
		}
	}
	server.GracefulStop()
	return errors.Join(err, <-failed)
}

// call calls for a while, beside the fate of its servers.
func call(ctx context.Context, c *client.Client, duration time.Duration) error {
	var children sync.WaitGroup
	defer children.Wait()
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	children.Go(func() { change(ctx) })

	conn, err := grpc.NewClient(conclavegrpc.Scheme+":///"+name,
		grpc.WithResolvers(conclavegrpc.NewBuilder(c)),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	checks := grpc_health_v1.NewHealthClient(conn)
	answered, failed := map[string]int{}, 0
	for ctx.Err() == nil {
		var from peer.Peer
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		_, err := checks.Check(one, &grpc_health_v1.HealthCheckRequest{}, grpc.Peer(&from))
		cancel()
		if err != nil {
			failed++
			fmt.Println(err)
			continue
		}
		answered[from.Addr.String()]++
	}
	calls := failed
	for _, n := range answered {
		calls += n
	}
	fmt.Printf("%d calls, answered by %d servers; %d failed\n", calls, len(answered), failed)
	if failed > 0 || len(answered) < servers {
		return errors.New("a call failed, or not all servers were found")
	}
	return nil
}

// change keeps the servers running until ctx ends. Every second one of them is
// killed, or stopped in order, and another one started.
func change(ctx context.Context) {
	running := make([]*exec.Cmd, servers)
	start := func(i int) {
		running[i] = exec.Command(os.Args[0], append([]string{"serve"}, os.Args[1:]...)...)
		running[i].Stderr = os.Stderr
		if err := running[i].Start(); err != nil {
			panic(err)
		}
	}
	end := func(i int, how os.Signal) {
		_ = running[i].Process.Signal(how)
		_ = running[i].Wait() // a killed one has an error
	}
	for i := range running {
		start(i)
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-second.C:
			i, how := rand.IntN(servers), []os.Signal{syscall.SIGKILL, syscall.SIGTERM}[rand.IntN(2)]
			fmt.Println(how, "of process", running[i].Process.Pid)
			end(i, how)
			start(i)
		case <-ctx.Done():
			for i := range running {
				end(i, syscall.SIGTERM)
			}
			return
		}
	}
}
