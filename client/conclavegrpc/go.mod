module conclave/client/conclavegrpc

go 1.26.0

// In a line of its own, so that make rename finds it.
require conclave v0.0.0

require (
	github.com/stretchr/testify v1.12.1
	google.golang.org/grpc v1.84.0
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260807164820-c8921c73eeea // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace conclave => ../..
