import { Bell } from '@element-plus/icons-vue'
import type { PageDefinition } from '@/router/page'

export const pages: PageDefinition[] = [
  {
    name: 'alerts',
    path: 'alerts',
    component: () => import('./AlertsPage.vue'),
    title: 'alerts.title',
    operations: ['listAlerts'],
    nav: { section: 'watch', order: 20, icon: Bell },
  },
  {
    name: 'alert-rules',
    path: 'alerts/rules',
    component: () => import('./RulesPage.vue'),
    title: 'alerts.rules.title',
    operations: ['listAlertRules'],
  },
  {
    name: 'alert-receivers',
    path: 'alerts/receivers',
    component: () => import('./ReceiversPage.vue'),
    title: 'alerts.receivers.title',
    operations: ['listAlertReceivers'],
  },
]
