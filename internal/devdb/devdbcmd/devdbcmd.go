package devdbcmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"conclave/internal/devdb"
)

// errUsage ends the program with exit code 2, after the message was printed.
var errUsage = errors.New("invalid usage")

// Main runs the program with these arguments and the signals of this one, and returns
// the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal stops gracefully, a second one kills
	return Run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
}

// Run runs the program until ctx ends, which stops it gracefully, and returns the exit
// code.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	switch err := run(ctx, args, stdin, stdout, stderr); {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	default:
		fmt.Fprintln(stderr, "devdb:", err)
		return 1
	}
}

// shown returns the server's DSN for its output, without a password.
func shown(server *devdb.Server, password string) string {
	if password == "" {
		return server.DSN()
	}
	return strings.Replace(server.DSN(), ":"+password+"@", ":PASSWORD@", 1)
}

// run serves until ctx is cancelled, then stops gracefully.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("devdb", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:3306", "address to listen on; port 0 picks a free one")
	file := flags.String("file", "", "file to keep the tables in (default: only in memory)")
	database := flags.String("database", "conclave", "database to create if it does not exist")
	level := flags.String("log-level", "warn", "log level: trace, debug, info, warn, error or off")
	passwordFile := flags.String("password-file", "", "file whose first line is the password of the user root (default: none is needed)")
	insecure := flags.Bool("insecure", false, "allow a listen address that other machines can reach, without a password")
	withParent := flags.Bool("with-parent", false, "stop when the standard input ends, as it does when the parent process dies")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return errUsage
	}
	usage := func(format string, args ...any) error {
		fmt.Fprintf(stderr, "devdb: "+format+"\n", args...)
		return errUsage
	}
	if flags.NArg() > 0 {
		return usage("unexpected argument %q", flags.Arg(0))
	}
	if hclog.LevelFromString(*level) == hclog.NoLevel {
		return usage("invalid --log-level %q (want trace, debug, info, warn, error or off)", *level)
	}
	addr, err := net.ResolveTCPAddr("tcp", *listen)
	if err != nil {
		return usage("--listen %q: %v", *listen, err)
	}
	password := ""
	if *passwordFile != "" {
		text, err := os.ReadFile(*passwordFile)
		if err != nil {
			return usage("--password-file: %v", err)
		}
		if password, _, _ = strings.Cut(string(text), "\n"); password == "" {
			return usage("--password-file %s: its first line is empty", *passwordFile)
		}
	}
	if !addr.IP.IsLoopback() && password == "" && !*insecure {
		return usage("--listen %s can be reached from other machines without a password: use a loopback address, --password-file or --insecure", *listen)
	}

	if *withParent {
		watched, orphaned := context.WithCancel(ctx)
		defer orphaned()
		ctx = watched
		go func() { // ends with stdin; when run returns first, the process ends
			defer orphaned()
			_, _ = io.Copy(io.Discard, stdin) // ended or broken: the parent has gone
		}()
	}

	// Trade CPU time for memory: the tables are small.
	debug.SetGCPercent(20)
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	server, err := devdb.New(devdb.Config{
		Listener: listener, File: *file, Database: *database, Password: password,
		Logger: hclog.New(&hclog.LoggerOptions{Name: "devdb", Level: hclog.LevelFromString(*level), Output: stderr}),
	})
	if err != nil {
		listener.Close()
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Run(context.WithoutCancel(ctx)) }()
	debug.FreeOSMemory() // return the memory that the engine needed to start
	fmt.Fprintln(stdout, "devdb ready", shown(server, password))
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(grace), <-ended)
}
