package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"conclave"
	"conclave/internal/certs"
	"conclave/internal/node"
	"conclave/internal/random"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/rights"
)

// commonFlags are the flags of every process that are no fields of node.Config.
type commonFlags struct {
	dialFrom, tokenFile, tlsDir, config, logLevel, trace string

	logJSON, printConfig bool
	stopTimeout          time.Duration
}

func (f *commonFlags) bind(fs *pflag.FlagSet, c *node.Config) {
	fs.StringVar(&c.Node.Name, "name", "", "name of this node, unique in the cluster (required)")
	fs.StringVar(&c.Listen, "listen", c.Listen, "address to listen on; port 0 takes a free one")
	fs.StringVar(&c.Advertise, "advertise", "", "advertised address, for other nodes (default: the one listened on)")
	fs.StringSliceVar(&c.Hosts, "host", nil, "host names, besides its own, under which HTTP/1.1 clients may address this node")
	fs.StringVar(&f.dialFrom, "dial-from", "", "local IP address of outgoing connections (default: the kernel's choice)")
	fs.StringVar(&c.DataCenter, "data-center", "default", "data center; nodes of another one are refused")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the tokens of this cluster: lines RIGHT NAME TOKEN, or one token; read again when it changes and on SIGHUP")
	fs.BoolVar(&c.PublicReads, "public-reads", false, "reading and subscribing need no token")
	fs.StringVar(&f.tlsDir, "tls-dir", "", "folder with ca.pem, node.pem and node-key.pem: use TLS with nodes and clients; see conclave certs")
	fs.BoolVar(&c.ClientCerts, "tls-clients", false, "with --tls-dir: clients need a certificate of the CA, too")
	fs.BoolVar(&c.Insecure, "insecure", false, "listen beyond loopback without a token")
	fs.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "connections, and requests, at a time; at most four fifths of the open files that the process may have")
	fs.IntVar(&c.MaxAddressConnections, "max-address-connections", c.MaxAddressConnections, "how many of them come from one address (the clients of one machine, or behind one proxy); at most three quarters of all")
	fs.BoolVar(&c.Pprof, "pprof", false, "serve profiles at /debug/pprof/, for requests from this machine only")
	fs.StringVar(&f.trace, "trace", "", "append this node's trace events to this file, for the checks of conclave chaos")
	fs.StringVar(&f.config, "config", "", "YAML file with any of these settings, named as the flags")
	fs.StringVar(&f.logLevel, "log-level", "info", "trace, debug, info, warn, error")
	fs.BoolVar(&f.logJSON, "log-json", false, "log one JSON document per line")
	fs.BoolVar(&f.printConfig, "print-config", false, "print the settings that would be used, and exit")
	fs.DurationVar(&f.stopTimeout, "stop-timeout", time.Minute, "how long a graceful stop may take")
}

// resolve completes the common part of the configuration. The role validates
// the whole of it.
func (f *commonFlags) resolve(role conclave.Role, c *node.Config, stderr io.Writer) error {
	if c.Node.Name == "" {
		return errors.New("--name is needed")
	}
	if f.stopTimeout <= 0 {
		return fmt.Errorf("--stop-timeout %s: want a positive time", f.stopTimeout)
	}
	level := hclog.LevelFromString(f.logLevel)
	if level == hclog.NoLevel {
		return fmt.Errorf("--log-level: unknown level %q (want trace, debug, info, warn or error)", f.logLevel)
	}
	network := wire.NewTCP()
	if f.dialFrom != "" {
		ip := net.ParseIP(f.dialFrom)
		if ip == nil || ip.IsUnspecified() {
			return fmt.Errorf("--dial-from %q: want an IP address of this machine", f.dialFrom)
		}
		network.LocalAddr = &net.TCPAddr{IP: ip}
	}
	var err error
	if c.Trace, err = openTrace(f.trace); err != nil {
		return err
	}
	c.Network, c.Rand, c.Version = network, random.New(), Version()
	c.Node.Incarnation = conclave.NewIncarnation(c.Rand)
	c.Logger = hclog.New(&hclog.LoggerOptions{Name: string(role), Level: level, JSONFormat: f.logJSON, Output: stderr})
	if f.tokenFile != "" {
		reloaded := reportReload(c.Logger, "the token file was read again", "the token file cannot be read: the tokens stay as they were")
		if c.Tokens, err = rights.OpenFile(f.tokenFile, reloaded); err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
	}
	limitConnections(c, OpenFiles())
	if f.tlsDir != "" {
		reloaded := reportReload(c.Logger, "the certificates were read again", "the changed certificates cannot be used: the old ones stay")
		if c.TLS, err = certs.Load(f.tlsDir, role, reloaded); err != nil {
			return fmt.Errorf("--tls-dir: %w", err)
		}
	}
	return nil
}

// limitConnections leaves files for connections to other nodes, and places for
// other addresses. 0 files: not known.
func limitConnections(c *node.Config, files int) {
	if all := files * 4 / 5; all > 0 {
		c.MaxConnections = min(c.MaxConnections, all)
	}
	c.MaxAddressConnections = min(c.MaxAddressConnections, max(1, c.MaxConnections*3/4))
}

// OpenFiles returns how many files the process can have open, 0 if that is not known:
// the runtime has raised its limit to the hard one.
func OpenFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(l.Max, 1<<30))
}

// reportReload returns what logs the reloads of a file.
func reportReload(log hclog.Logger, done, failed string) func(error) {
	return func(err error) {
		if err != nil {
			log.Error(failed, "error", err)
			return
		}
		log.Info(done)
	}
}

// openTrace returns the sink for trace events. The file stays open until the
// process exits.
func openTrace(file string) (trace.Sink, error) {
	if file == "" {
		return nil, nil
	}
	w, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	return trace.To(w), nil
}

// DSN returns the value of --dsn, or the first line of the file of --dsn-file.
func DSN(dsn, file string) (string, error) {
	switch {
	case dsn != "" && file != "":
		return "", errors.New("--dsn and --dsn-file exclude each other")
	case dsn != "":
		return dsn, nil
	case file == "":
		return "", errors.New("--dsn or --dsn-file is required")
	}
	return DSNFile("dsn-file", file)
}

// DSNFile returns the first line of the file that a flag names.
func DSNFile(flag, file string) (string, error) {
	b, err := os.ReadFile(file)
	dsn, _, _ := strings.Cut(strings.TrimPrefix(string(b), "\ufeff"), "\n") // without a byte order mark
	if dsn = strings.TrimSpace(dsn); err == nil && dsn == "" {
		err = fmt.Errorf("the first line of %s is empty", file)
	}
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return dsn, nil
}

// version is set by the Makefile with -ldflags.
var version string

// Version returns the version set by the Makefile, or that of the module from
// which the program was built.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
