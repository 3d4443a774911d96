import { Link } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'webhooks',
    path: 'webhooks',
    component: () => import('./WebhooksPage.vue'),
    title: 'webhooks.title',
    operations: ['listWebhooks'],
    nav: { section: 'messages', order: 64, icon: Link },
  },
  {
    name: 'webhook',
    path: 'webhooks/:webhook_id(\\d+)',
    component: () => import('./WebhookPage.vue'),
    title: 'webhooks.one',
    operations: ['getWebhook'],
  },
]
