package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"conclave"
	"conclave/client"
)

// workloadCommand runs publishers and subscribers in one process, for
// containers. `up --clients` starts a process for each instead.
func (a *app) workloadCommand() *cobra.Command {
	var count int
	cmd := &cobra.Command{
		Use: "workload", Hidden: true, Args: want(),
		Short: "Run publishers and subscribers of demo.echo",
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.workload(cmd.Context(), count) },
	}
	cmd.Flags().IntVar(&count, "count", 2, "number of publishers, and also of subscribers")
	return cmd
}

// workload runs them until ctx ends or one of them fails; then all end.
func (a *app) workload(ctx context.Context, count int) error {
	if count < 1 {
		return usageError{fmt.Errorf("--count is %d: want at least 1", count)}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var printing sync.Mutex // guards a.stdout
	say := func(format string, args ...any) {
		printing.Lock()
		defer printing.Unlock()
		line(a.stdout, clock(now())+"  "+format, args...)
	}
	errs := make([]error, 2*count)
	var running sync.WaitGroup
	work := func(i int, name string, f func(c *client.Client) error) {
		c, leave, err := a.connect(name, 0) // not in the goroutine, because it sets the token
		if err != nil {
			errs[i] = err
			stop()
			return
		}
		running.Go(func() {
			defer stop()
			err := f(c)
			if err == nil {
				<-ctx.Done()
			}
			errs[i] = errors.Join(err, leave(err == nil))
		})
	}
	for i := range count {
		name := fmt.Sprintf("publisher-%d", i+1)
		work(i, name, func(c *client.Client) error {
			value := fmt.Sprintf("10.0.0.%d:8080", i+1)
			p, err := c.Publish(ctx, demoDataID, []string{value})
			if err != nil {
				return err
			}
			if err := p.Stored(ctx); err != nil {
				if ctx.Err() != nil {
					return nil // stopped before the values were stored
				}
				return err
			}
			say("%s  %s = %s", name, demoDataID, value)
			return nil
		})
	}
	for i := range count {
		name := fmt.Sprintf("subscriber-%d", i+1)
		work(count+i, name, func(c *client.Client) error {
			_, err := c.Subscribe(demoDataID, client.OnPush(func(d conclave.Datum) {
				say("%s  %s  version %d  %s: %s", name, d.Data.DataID, d.Version, plural(len(d.Values), "value"), strings.Join(d.Values, ", "))
			}))
			return err
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// demoDataID is the dataId of these clients.
const demoDataID = "demo.echo"
