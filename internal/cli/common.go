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
)

// Common is what every process is told, checked and resolved.
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
	Trace      trace.Sink // --trace; nil: nobody listens
}

// commonFlags are the flags behind Common.
type commonFlags struct {
	name, listen, advertise, dialFrom, dataCenter, tokenFile, config, logLevel, trace string

	insecure, logJSON, printConfig bool
	stopTimeout                    time.Duration
}

func (f *commonFlags) bind(fs *pflag.FlagSet, listen string) {
	fs.StringVar(&f.name, "name", "", "name of this node, unique in the cluster (needed)")
	fs.StringVar(&f.listen, "listen", listen, "address to listen on; port 0 takes a free one")
	fs.StringVar(&f.advertise, "advertise", "", "address that other nodes are told (default: the one listened on)")
	fs.StringVar(&f.dialFrom, "dial-from", "", "IP address of this machine that connections leave from (default: the kernel's choice)")
	fs.StringVar(&f.dataCenter, "data-center", "default", "data center; nodes of different ones do not meet")
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the token that changing requests must show")
	fs.BoolVar(&f.insecure, "insecure", false, "listen beyond loopback without a token")
	fs.StringVar(&f.trace, "trace", "", "append what this node claims about itself to this file, for the proving ground (conclave chaos)")
	fs.StringVar(&f.config, "config", "", "YAML file with any of these settings, by the names of the flags")
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
		return Common{}, fmt.Errorf("--log-level %q is none of trace, debug, info, warn, error", f.logLevel)
	}
	token, err := readToken(f.tokenFile)
	if err != nil {
		return Common{}, err
	}
	if err := wire.CheckListen(f.listen, token, f.insecure); err != nil {
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
	claims, err := openTrace(f.trace)
	if err != nil {
		return Common{}, err
	}
	r := newRand()
	return Common{
		Node:   conclave.NodeID{Name: f.name, Incarnation: conclave.NewIncarnation(r)},
		Listen: f.listen, Advertise: f.advertise, DataCenter: f.dataCenter, Token: token, Insecure: f.insecure,
		Network: network, Rand: r, Now: time.Now, Version: Version(), Trace: claims,
		Logger: hclog.New(&hclog.LoggerOptions{Name: string(role), Level: level, JSONFormat: f.logJSON, Output: stderr}),
	}, nil
}

// openTrace is where claims go. The file is the process's to its end.
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

// readToken takes the first line of the file.
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

// checkAdvertise refuses an address that would lead others nowhere.
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
		return fmt.Errorf("--listen %q takes every address: say with --advertise which one others are told", listen)
	}
	return nil
}

// newRand seeds the streams of this process.
func newRand() *rand.Rand {
	var seed [32]byte
	if _, err := crand.Read(seed[:]); err != nil { // never happens: crypto/rand ends the program itself
		binary.LittleEndian.PutUint64(seed[:], uint64(os.Getpid()))
	}
	return rand.New(rand.NewChaCha8(seed))
}

// version is set by the Makefile with -ldflags.
var version string

// Version is the one the Makefile gave, or that of the module the program was
// built from.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
