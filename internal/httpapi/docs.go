package httpapi

import (
	"fmt"
	"net/http"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"

	contract "lksms/api"
	"lksms/gen/api"
)

// mountDocs serves Swagger UI, from the binary, and the document in both forms (S0.16).
func mountDocs(mux *http.ServeMux) error {
	asJSON, err := api.GetSpecJSON()
	if err != nil {
		return fmt.Errorf("load contract: %w", err)
	}
	document := func(contentType string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(body) // a caller that has gone cannot be told
		}
	}
	ui := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "LKSMS", BasePath: "/docs/",
		SwaggerJSON: "/openapi.yaml", // keeps the order of operations and examples, which JSON loses
		SettingsUI: map[string]string{
			"persistAuthorization": "true", "displayRequestDuration": "true", "tryItOutEnabled": "true",
		},
	})
	mux.Handle("GET /openapi.json", document("application/json", asJSON))
	mux.Handle("GET /openapi.yaml", document("application/yaml", contract.YAML))
	mux.Handle("GET /docs/", ui)
	mux.Handle("GET /docs", http.RedirectHandler("/docs/", http.StatusFound))
	mux.Handle("GET /{$}", http.RedirectHandler("/docs/", http.StatusFound))
	return nil
}
