package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"conclave"
	"conclave/internal/node"
)

// Process describes one of the processes.
type Process struct {
	Role  conclave.Role
	Short string // one line for --help
	// Config is the common part of the role's configuration. Its Listen is the
	// default of --listen. It is complete and valid when New is called; the
	// role's own flags may set Metas and Beat.
	Config *node.Config
	// Flags binds the role's own flags, in addition to the common ones.
	Flags func(*pflag.FlagSet)
	// Secrets are the names of flags that --print-config hides.
	Secrets []string
	// New makes the server once all settings are known. Its error means wrong
	// usage unless it was made by Failed or TimedOut. ctx ends with the
	// process.
	New func(ctx context.Context) (Server, error)
}

// Server is implemented by the servers of the three roles.
type Server interface {
	Run(ctx context.Context) error
	Shutdown(ctx context.Context) error
	Started() <-chan struct{}
	Address() string
}

// gcPercent replaces Go's default of 100 unless GOGC is set. A registry holds
// little memory for a long time, so saving memory matters more than collector
// time.
const gcPercent = 50

// Main runs the process with these arguments and the environment, output and signals
// of this one, and returns the exit code.
func Main(p Process, args []string) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() { // runs until the process exits
		<-signals
		stop()
		<-signals
		os.Exit(CodeFailed)
	}()
	err := Execute(ctx, p, args, os.Environ(), os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", p.Role, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return Code(err)
}

// Execute runs the process until it fails, or until ctx ends, which starts its
// graceful stop. Code returns the exit code for its error.
func Execute(ctx context.Context, p Process, args, environ []string, stdout, stderr io.Writer) error {
	var common commonFlags
	var runErr error
	cmd := &cobra.Command{
		Use:           string(p.Role),
		Short:         p.Short,
		Version:       Version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	common.bind(flags, p.Config)
	if p.Flags != nil {
		p.Flags(flags)
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := applyLayers(flags, p.Role, common.config, environ); err != nil {
			return err
		}
		if common.printConfig {
			return printConfig(stdout, flags, p.Secrets)
		}
		if err := common.resolve(p.Role, p.Config, stderr); err != nil {
			return err
		}
		runErr = run(ctx, p, common.stopTimeout, stdout)
		return nil
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.CompletionOptions.DisableDefaultCmd = true
	if err := cmd.Execute(); err != nil { // an error of cobra or of the settings is wrong usage
		return coded(CodeUsage, err)
	}
	return runErr
}

// run makes the server and runs it from start to stop.
func run(ctx context.Context, p Process, stopTimeout time.Duration, stdout io.Writer) error {
	if !p.Config.Pprof {
		runtime.MemProfileRate = 0 // each place that allocates costs a page
	}
	server, err := p.New(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it had started
		}
		return coded(CodeUsage, err)
	}
	if tokens := p.Config.Tokens; tokens != nil {
		reload := make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
		var reading sync.WaitGroup
		defer reading.Wait()
		ctx, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		reading.Go(func() { tokens.Run(ctx, reload) })
	}
	ended := make(chan error, 1) // one value: what Run returned
	go func() { ended <- server.Run(context.WithoutCancel(ctx)) }()

	started := server.Started()
	for {
		select {
		case <-started:
			started = nil
			fmt.Fprintf(stdout, "%s (%s) answers at %s\n", p.Config.Node.Name, p.Role, server.Address())
		case err := <-ended:
			return err
		case <-ctx.Done():
			// ctx has ended: the stop has a timeout of its own.
			stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			defer cancel()
			err := server.Shutdown(stopping)
			return errors.Join(err, <-ended)
		}
	}
}
