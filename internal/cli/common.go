package cli

import (
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"conclave"
	"conclave/internal/trace"
	"conclave/wire"
	"conclave/wire/serve"
)

// Common holds the settings that all processes share, checked and resolved.
type Common struct {
	Node       conclave.NodeID // the name of --name, with a fresh incarnation
	Listen     string
	Advertise  string // "": the listener's own address
	DataCenter string
	Token      string
	Insecure   bool
	Network    wire.Network
	Logger     hclog.Logger // named by role
	Rand       *rand.Rand   // crypto-seeded: derive the streams of loops from it
	Now        func() time.Time
	Version    string
	Trace      trace.Sink // set by --trace; may be nil
}

// commonFlags are the flags behind Common.
type commonFlags struct {
	name, listen, advertise, dialFrom, dataCenter, tokenFile, config, logLevel, trace string

	insecure, logJSON, printConfig bool
	stopTimeout                    time.Duration
}

func (f *commonFlags) bind(fs *pflag.FlagSet, listen string) {
	fs.StringVar(&f.name, "name", "", "name of this node, unique in the cluster (required)")
	fs.StringVar(&f.listen, "listen", listen, "address to listen on; port 0 takes a free one")
	fs.StringVar(&f.advertise, "advertise", "", "advertised address, for other nodes (default: the one listened on)")
	fs.StringVar(&f.dialFrom, "dial-from", "", "local IP address of outgoing connections (default: the kernel's choice)")
	fs.StringVar(&f.dataCenter, "data-center", "default", "data center; nodes of another one are refused")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the token that changing requests must carry")
	fs.BoolVar(&f.insecure, "insecure", false, "listen beyond loopback without a token")
	fs.StringVar(&f.trace, "trace", "", "append this node's trace events to this file, for the checks of conclave chaos")
	fs.StringVar(&f.config, "config", "", "YAML file with any of these settings, named as the flags")
	fs.StringVar(&f.logLevel, "log-level", "info", "trace, debug, info, warn, error")
	fs.BoolVar(&f.logJSON, "log-json", false, "log one JSON document per line")
	fs.BoolVar(&f.printConfig, "print-config", false, "print the settings that would be used, and exit")
	fs.DurationVar(&f.stopTimeout, "stop-timeout", time.Minute, "how long a graceful stop may take")
}

// resolve checks the common settings and reads the token.
func (f *commonFlags) resolve(role conclave.Role, stderr io.Writer) (Common, error) {
	if f.name == "" {
		return Common{}, errors.New("--name is needed")
	}
	if err := conclave.ValidateName(f.name); err != nil {
		return Common{}, fmt.Errorf("--name: %w", err)
	}
	if f.stopTimeout <= 0 {
		return Common{}, fmt.Errorf("--stop-timeout %s: want a positive time", f.stopTimeout)
	}
	level := hclog.LevelFromString(f.logLevel)
	if level == hclog.NoLevel {
		return Common{}, fmt.Errorf("--log-level: unknown level %q (want trace, debug, info, warn or error)", f.logLevel)
	}
	token, err := readToken(f.tokenFile)
	if err != nil {
		return Common{}, err
	}
	if err := serve.CheckListen(f.listen, token, f.insecure); err != nil {
		return Common{}, fmt.Errorf("--listen: %w", err)
	}
	if err := checkAdvertise(f.listen, f.advertise); err != nil {
		return Common{}, err
	}
	network := wire.NewTCP()
	if f.dialFrom != "" {
		ip := net.ParseIP(f.dialFrom)
		if ip == nil || ip.IsUnspecified() {
			return Common{}, fmt.Errorf("--dial-from %q: want an IP address of this machine", f.dialFrom)
		}
		network.LocalAddr = &net.TCPAddr{IP: ip}
	}
	sink, err := openTrace(f.trace)
	if err != nil {
		return Common{}, err
	}
	r := newRand()
	return Common{
		Node:   conclave.NodeID{Name: f.name, Incarnation: conclave.NewIncarnation(r)},
		Listen: f.listen, Advertise: f.advertise, DataCenter: f.dataCenter, Token: token, Insecure: f.insecure,
		Network: network, Rand: r, Now: time.Now, Version: Version(), Trace: sink,
		Logger: hclog.New(&hclog.LoggerOptions{Name: string(role), Level: level, JSONFormat: f.logJSON, Output: stderr}),
	}, nil
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

// readToken returns the first line of the file.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	token := strings.TrimSpace(line)
	if token == "" {
		return "", fmt.Errorf("--token-file %s: its first line is empty", file)
	}
	return token, nil
}

// checkAdvertise refuses an advertised address that other nodes could not dial.
func checkAdvertise(listen, advertise string) error {
	if advertise != "" {
		if host, port, err := net.SplitHostPort(advertise); err != nil || host == "" || port == "" || port == "0" {
			return fmt.Errorf("--advertise %q: want HOST:PORT", advertise)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--listen %q: want HOST:PORT", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("--listen %q accepts on every address: set the one for other nodes with --advertise", listen)
	}
	return nil
}

// newRand returns the source of this process's random streams.
func newRand() *rand.Rand {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil { // never happens: crypto/rand ends the program itself
		binary.LittleEndian.PutUint64(seed[:], uint64(os.Getpid()))
	}
	return rand.New(rand.NewChaCha8(seed))
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
