// Package tracing owns the spans that a server exports with OpenTelemetry, and the traceparent (W3C Trace Context) that connects the spans of a task across
// systems.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"lksms/internal/platform/build"
)

// Options configures a Tracer.
type Options struct {
	URL string // address to which spans are posted as OTLP; empty: no spans are created
	Log *slog.Logger
}

// Tracer creates spans.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider // nil: spans are not exported
}

// serviceName is the name of the service in traces, unless OTEL_SERVICE_NAME is set.
const serviceName = "lksms"

// New returns a Tracer. The OpenTelemetry exporter itself reads the other OTEL_ variables: headers, timeouts, sampling, attributes. The exporter connects in
// the background, so that a collector that does not answer delays no request.
func New(ctx context.Context, o Options) (*Tracer, error) {
	if o.URL == "" {
		return Off(), nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.URL))
	if err != nil {
		return nil, fmt.Errorf("start the export of traces: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", serviceName), attribute.String("service.version", build.Read().Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("describe the server in traces (OTEL_RESOURCE_ATTRIBUTES): %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("traces could not be exported", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &Tracer{tracer: provider.Tracer(serviceName), provider: provider}, nil
}

// Off returns a Tracer that creates no spans.
func Off() *Tracer { return &Tracer{tracer: noop.NewTracerProvider().Tracer(serviceName)} }

// IsOn reports whether t creates spans. A nil Tracer creates no spans.
func (t *Tracer) IsOn() bool { return t != nil && t.provider != nil }

// Close exports the spans that have ended, and stops the export.
func (t *Tracer) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("export the last traces: %w", err)
	}
	return nil
}

// header is the only header that propagator reads and writes. The header tracestate is ignored.
const header = "traceparent"

var propagator propagation.TraceContext

// Traceparent returns the valid traceparent in the header of a request. It returns an empty string if the header is missing, invalid or repeated.
func Traceparent(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return Header(withTraceparent(context.Background(), values[0]))
}

// Header returns the traceparent of the span of ctx. It returns an empty string if ctx has no span.
func Header(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier[header]
}

// withTraceparent returns a context whose spans continue traceparent.
func withTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagator.Extract(ctx, propagation.MapCarrier{header: traceparent})
}

// Start starts a span that continues traceparent. If traceparent is empty, the span continues the span of ctx. Even if t creates no spans, the returned context
// contains traceparent.
func (t *Tracer) Start(ctx context.Context, traceparent, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if traceparent != "" {
		ctx = withTraceparent(ctx, traceparent)
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
}

// Record creates a span that began at started and ends now. The span continues traceparent and links to the span of ctx. If traceparent is empty, the span
// continues the span of ctx.
func (t *Tracer) Record(ctx context.Context, traceparent, name string, started time.Time, attributes ...attribute.KeyValue) {
	if !t.IsOn() {
		return
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(started), trace.WithAttributes(attributes...)}
	if traceparent != "" {
		if request := trace.SpanContextFromContext(ctx); request.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: request}))
		}
		ctx = withTraceparent(ctx, traceparent)
	}
	_, span := t.tracer.Start(ctx, name, options...)
	span.End()
}
